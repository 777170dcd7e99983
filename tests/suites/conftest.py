"""Builds the shipped tasks as a phase does, with real candidate processes (without the uids of a sandbox)."""

from __future__ import annotations

import importlib
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_bench.suites.registry import load_suites, resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker import candidate_runner
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import BuildContext, Limits, Problem, Programs
from trace_bench.worker.reaper import Candidate, Reaper, Tally
from trace_bench.worker.seccomp import Filter
from trace_bench.worker.spawner import shared_memory

FILTER = Filter()
REAPER = Reaper(lambda _: True, lambda *_: None)


class ForkingSpawner:
    """Serves `CandidatePrograms` in place of the sandbox's spawner: forked from here, with its filters."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def open(self, limits: Limits, modules: list[str]) -> tuple[int, socket.socket, mmap.mmap | None]:
        ours, theirs = socket.socketpair()
        shared = None
        if limits.shared_bytes:
            fd = shared_memory(limits.shared_bytes)
            shared = mmap.mmap(fd, 0)
            os.close(fd)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                FILTER.install("loading", limits.needs)
                candidate_runner.run(theirs, lambda: FILTER.install("closed", limits.needs), set(), shared=shared)
            finally:
                os._exit(0)
        theirs.close()
        self.pids.append(pid)
        return pid, ours, shared

    def hold(self, number: int, *, held: bool) -> bool | None:
        return REAPER.hold(Candidate(number, None, 1, Tally()), held=held)

    def close(self, number: int, *, hung_up: bool = False) -> dict[str, Any]:
        """`hung_up`: the candidate closed its end, so it is dying by itself, and how is worth knowing for a second."""
        end = time.monotonic() + hung_up
        while time.monotonic() < end and not os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(0.002)
        os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        self.pids.remove(number)
        killed = os.WIFSIGNALED(status)
        return {
            "code": None if killed else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if killed else None,
        }


@pytest.fixture
def spawner() -> Iterator[ForkingSpawner]:
    spawner = ForkingSpawner()
    yield spawner
    left = list(spawner.pids)
    for pid in left:
        spawner.close(pid)
    assert left == [], "a test left candidate processes open"


@pytest.fixture
def programs(spawner: ForkingSpawner) -> Programs:
    return CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]


BuildTask = Callable[..., Problem]


@pytest.fixture
def build_task(programs: Programs) -> BuildTask:
    """``build_task(task_id, seed=…, test_seed=…, **eval_kwargs)`` through spec, registry and the suite's builder."""

    def build(task_id: str, *, seed: int = 1, test_seed: int | None = None, **given: Any) -> Problem:
        entry = resolve(task_id)
        return build_folder(entry.folder, programs, entry.suite, seed=seed, test_seed=test_seed, **given)

    return build


@pytest.fixture
def build_at(programs: Programs) -> BuildTask:
    """``build_at(folder, …)``: the same for a folder that a test wrote."""

    def build(folder: Path, *, seed: int = 1, test_seed: int | None = None, **given: Any) -> Problem:
        return build_folder(folder, programs, "internal", seed=seed, test_seed=test_seed, **given)

    return build


def build_folder(
    folder: Path, programs: Programs, suite: str, *, seed: int, test_seed: int | None, **given: Any
) -> Problem:
    spec = load_task_spec(folder)
    module, function = load_suites()[suite].builder.split(":")
    context = BuildContext(
        task_dir=folder,
        spec=spec.raw,
        eval_kwargs=resolve_eval_kwargs(spec, given, lambda key: key),
        seed=seed,
        programs=programs,
        test_seed=test_seed,
    )
    problem = getattr(importlib.import_module(module), function)(context)
    assert isinstance(problem, Problem)
    return problem
