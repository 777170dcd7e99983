"""Processes that begin where Python and the package have been imported already.

A command that a test starts spends most of its time on imports. `run` forks it from a server that has done them
once. It is a process of its own all the same: its arguments, environment, folder, output and exit are those of a
command that was started afresh.
"""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import iter_modules

# What Python and the C library read once, when a process starts.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "FAKETIME")

_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.preloaded"])


def preload() -> None:
    """Import what commands import (in the server)."""
    import trace_bench.cli

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for module in iter_modules(trace_bench.cli.__path__, "trace_bench.cli."):
        import_module(module.name)
    for name in ("controller.run", "sandbox.local", "sandbox.docker_hosts", "suites.registry", "results.tables", "api"):
        import_module(f"trace_bench.{name}")


def can_run(environment: Mapping[str, str]) -> bool:
    """True if a fork has, of what is read at a process's start, what `environment` says."""
    names = {name for name in environment.keys() | os.environ.keys() if name.startswith(_READ_AT_START)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(
    arguments: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None, timeout: float
) -> tuple[int, str, str]:
    """Run ``trace-bench ARGUMENTS``; returns its exit code, output and error output.

    Raises:
        subprocess.TimeoutExpired: it took longer than `timeout` seconds, and has been killed.
    """
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()
        err.touch()
        process = _server.Process(  # type: ignore[attr-defined]
            target=_command, args=(list(arguments), dict(environment), str(cwd or Path.cwd()), str(out), str(err))
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout, out.read_bytes(), err.read_bytes())
        return process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


def _command(arguments: list[str], environment: dict[str, str], cwd: str, out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        written = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(written, number)
        os.close(written)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.argv = ["trace-bench", *arguments]
    code = 1
    try:
        import_module("trace_bench.cli").main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    # As at the end of an interpreter.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.freeze()
    sys.exit(code)
