"""Processes that begin where Python and the package have been imported already.

A command that a test starts spends most of its time on imports. `run` and `Command` fork it from a server that has done
them once. It is a process of its own all the same: its arguments, environment, folder, output and exit are those of a
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
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

# What Python and the C library read once, when a process starts.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "FAKETIME")

_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.preloaded"])


def preload() -> None:
    """Import what commands import (in the server)."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in (
        "cli",
        "cli.commands",
        "analysis",
        "audit",
        "execution",
        "planning",
        "records",
        "report",
        "suites",
        "trainers",
    ):
        package = import_module(f"trace_bench.{name}")
        for module in iter_modules(package.__path__):
            import_module(f"trace_bench.{name}.{module.name}")
    for name in (
        "sandbox.local", "sandbox.docker_hosts", "api", "gateway.scripted", "kernel_server.evaluate",
        "images.build", "mirrors",
    ):  # fmt: skip
        import_module(f"trace_bench.{name}")
    for name in ("pyarrow.parquet", "scipy.special", "scipy.stats", "pandas", "plotly.graph_objects", "jsonschema"):
        import_module(name)


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
        with out.open("ab") as to_out, err.open("ab") as to_err:
            process = _start(arguments, environment, cwd, {1: to_out.fileno(), 2: to_err.fileno()})
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout, out.read_bytes(), err.read_bytes())
        return process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


class Command(subprocess.Popen[str]):
    """``trace-bench ARGUMENTS`` as a fork, to be talked to while it runs. The keywords are those of `subprocess.Popen`;
    without ``stdin`` it reads nothing."""

    def _execute_child(  # type: ignore[override]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_,
    ) -> None:  # fmt: skip
        theirs = {0: p2cread, 1: c2pwrite, 2: errwrite}
        given = {number: descriptor for number, descriptor in theirs.items() if descriptor != -1}
        self._process = _start(args, os.environ if env is None else env, cwd, given)
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._process.join(timeout)
        if self._internal_poll() is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


def start(*arguments: str, env: Mapping[str, str], **how: Any) -> subprocess.Popen[str]:
    """Start ``trace-bench ARGUMENTS``, as a fork if one can have the environment `env`; `how` is for
    `subprocess.Popen`."""
    if can_run(env):
        return Command(arguments, env=env, text=True, **how)
    return subprocess.Popen([sys.executable, "-m", "trace_bench", *arguments], env=env, text=True, **how)


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None, descriptors: Mapping[int, int]
) -> Any:
    """Fork the command. Of `descriptors` of this process it has copies, under their numbers.

    It is ended with this process if it still runs.
    """
    given = {
        number: Connection(os.dup(ours), writable=number > 0, readable=number == 0)
        for number, ours in descriptors.items()
    }
    process = _server.Process(  # type: ignore[attr-defined]
        target=_command, args=(list(arguments), dict(environment), str(cwd or Path.cwd()), given), daemon=True
    )
    process.start()
    for connection in given.values():
        connection.close()
    return process


def _command(arguments: list[str], environment: dict[str, str], cwd: str, descriptors: dict[int, Connection]) -> None:
    for number, connection in descriptors.items():
        os.dup2(connection.fileno(), number)
        connection.close()
    for name, number in (("stdout", 1), ("stderr", 2)):  # line by line on a terminal, as in a new process
        getattr(sys, name).reconfigure(line_buffering=number == 2 or os.isatty(number))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
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
