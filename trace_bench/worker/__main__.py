"""``python3 -sP -m trace_bench.worker --uid-base N --lease SECONDS``: the command of every sandbox.

``--uid-base``    first uid of this job's block of 16
``--lease``       seconds without a controller before it ends
``--local``       no uids to change to: an unprotected run
``--out``, ``--tmp``  folders, where they are not ``/out`` and ``/tmp``
``--file-bytes``  largest file that a phase may write
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from trace_bench.worker.options import Options
from trace_bench.worker.supervisor import Supervisor


def main() -> int:
    """Parse the launch arguments and supervise one job."""
    given = _arguments(sys.argv[1:])
    local, tmp, out = "local" in given, Path(given.get("tmp", "/tmp")), Path(given.get("out", "/out"))
    if not local and "uid-base" not in given:
        raise SystemExit("trace_bench.worker: --uid-base is needed unless --local is given")
    options = Options(
        uid_base=None if local else int(given["uid-base"]),
        tmp=tmp,
        file_bytes=int(given.get("file-bytes", 256 << 20)),
    )
    if options.uid_base is not None:
        # Some runtimes give a tmpfs the mode of the image's folder (1777) whatever was asked for: two candidates
        # could then leave each other notes.
        for shared in (tmp, Path("/run")):
            shared.chmod(0o755)
        # Phases may look (they are of this group); candidates would find each other's sources there.
        os.chown(out, -1, options.uid_base)
        out.chmod(0o750)
        # No queue can be made there, but a process that may write to a folder may set its times.
        with contextlib.suppress(OSError):
            Path("/dev/mqueue").chmod(0o755)
    return Supervisor(options, out, float(given.get("lease", 60))).run()


def _arguments(words: list[str]) -> dict[str, str]:
    """Values by name. The host writes this command line, and every job would wait 6 ms for argparse."""
    known = ("--uid-base", "--lease", "--out", "--tmp", "--file-bytes")
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        value = "" if word == "--local" else next(rest, None)
        if value is None or word not in (*known, "--local"):
            raise SystemExit(f"trace_bench.worker: {word} is not an argument, or its value is missing")
        given[word.removeprefix("--")] = value
    return given


if __name__ == "__main__":
    sys.exit(main())
