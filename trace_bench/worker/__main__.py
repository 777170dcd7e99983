"""``python3 -sP -m trace_bench.worker --uid-base N --lease SECONDS``: the command of every sandbox."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trace_bench.worker.spawner import Options
from trace_bench.worker.supervisor import Supervisor


def main() -> int:
    """Parse the launch arguments and supervise one job."""
    parser = argparse.ArgumentParser(prog="trace_bench.worker", description="Runs one job; started by the host.")
    parser.add_argument("--uid-base", type=int, help="first uid of this job's block of 16")
    parser.add_argument("--lease", type=float, default=60.0, help="seconds without a controller before it ends")
    parser.add_argument("--local", action="store_true", help="no uids to change to: an unprotected run")
    parser.add_argument("--out", type=Path, default=Path("/out"))
    parser.add_argument("--tmp", type=Path, default=Path("/tmp"))
    parser.add_argument("--file-bytes", type=int, default=256 << 20, help="largest file a phase may write")
    arguments = parser.parse_args()
    if not arguments.local and arguments.uid_base is None:
        parser.error("--uid-base is needed unless --local is given")
    options = Options(
        uid_base=None if arguments.local else arguments.uid_base,
        tmp=arguments.tmp,
        file_bytes=arguments.file_bytes,
    )
    if options.uid_base is not None:
        # Some runtimes give a tmpfs the mode of the image's folder (1777) whatever was asked for: two candidates
        # could then leave each other notes.
        for shared in (arguments.tmp, Path("/run")):
            shared.chmod(0o755)
    return Supervisor(options, arguments.out, arguments.lease).run()


if __name__ == "__main__":
    sys.exit(main())
