"""The spawner's part in candidates: start a process under a free uid of the job's block, end it, sweep its uid."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import mmap
import os
import resource
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.worker import candidate_runner, imports
from trace_bench.worker.confine import address_space, become, fork_child, keep_only, limit, limits_of, redirect_to_null
from trace_bench.worker.memory_guard import MemoryGuard
from trace_bench.worker.options import CANDIDATE_OFFSETS, Options
from trace_bench.worker.preload import LATE, PRELOADABLE
from trace_bench.worker.problem import MOST_FILES
from trace_bench.worker.reaper import Candidate, Reaper, Tally
from trace_bench.worker.seccomp import NEEDS, Filter
from trace_bench.worker.sweep import Sweeper


class Refused(Exception):
    """A candidate cannot be started; the text is the answer to the phase."""


@dataclass(frozen=True)
class Request:
    """A phase's request for a candidate.

    Attributes:
        limits: see `confine.limits_of`.
        modules: that its source seems to import.
        needs: what it may do beyond the usual (`seccomp.NEEDS`).
        files: descriptors of the files that it is given, by the names of variables.
    """

    limits: dict[str, int]
    modules: list[str]
    needs: frozenset[str]
    files: dict[str, int]

    @classmethod
    def parse(cls, message: dict[str, Any], fds: Sequence[int]) -> Request:
        """The request in a message of a phase.

        Raises:
            Refused: it is none.
        """
        limits, modules = limits_of(message.get("limits")), message.get("modules", [])
        needs, names = message.get("needs", []), message.get("files", [])
        if limits is None or not all(isinstance(value, list) for value in (modules, needs, names)):
            raise Refused("the request has no limits that can be set")
        if len(names) != len(fds) or len(fds) > MOST_FILES or not all(map(str.isidentifier, map(str, names))):
            raise Refused(f"a program is given {MOST_FILES} files at most")
        files = dict(zip(map(str, names), fds, strict=True))
        return cls(limits, list(map(str, modules)), frozenset(need for need in NEEDS if need in needs), files)


class CandidatePool:
    """Starts and ends the candidates of all phases.

    No two of them have the same uid at a time. A uid that could not be swept is never used again.
    """

    def __init__(self, options: Options, reaper: Reaper, sweeper: Sweeper, guard: MemoryGuard, filters: Filter) -> None:
        self._options = options
        self._reaper = reaper
        self._sweeper = sweeper
        self._guard = guard
        self._filter = filters
        self._free = list(CANDIDATE_OFFSETS)
        self._opened = 0
        self._preloaded: set[str] = set()
        self._mapped: set[str] = set()

    def preload(self, modules: Iterable[str]) -> None:
        """Import those of `modules` that are allowed to be: every candidate is forked with them already there."""
        wanted = PRELOADABLE.intersection(modules) - self._preloaded
        for module in sorted(wanted):
            # What cannot be imported here fails in the child, where it is reported.
            with contextlib.suppress(Exception):
                imports.lazy_parts(importlib.import_module(module))
                for late in LATE.get(module, ()):
                    importlib.import_module(late)
        self._preloaded |= wanted
        if wanted or not self._mapped:
            imports.read_mapped(self._mapped)

    def open(self, request: Request, tally: Tally) -> tuple[int, Candidate, list[int]]:
        """Start a candidate: its number, its process, and the descriptors for the phase, which the caller closes: the
        socket to it, and the memory that it shares, if any.

        Raises:
            Refused: no uid or no process is to be had.
        """
        shared_bytes = request.limits["shared_bytes"]
        limits = {**request.limits, "memory_bytes": self._guard.room(request.limits["memory_bytes"])}
        self.preload(request.modules)
        self._prepare_filters(request.needs)
        uid = self._take_uid()
        folder = self._options.tmp / f"compiler-{self._opened + 1}" if "compiler" in request.needs else None
        ours, theirs = socket.socketpair()
        shared: list[int] = []
        try:
            if shared_bytes:
                shared = [shared_memory(shared_bytes)]
            if folder is not None:
                folder.mkdir(mode=0o700)
                if uid is not None:
                    os.chown(folder, uid, uid)
            pid = fork_child(lambda: self._run(uid, limits, request, theirs.fileno(), shared, folder))
        except OSError as error:
            for fd in shared:
                os.close(fd)
            ours.close()
            self._return_uid(uid)
            if folder is not None:
                self._sweeper.remove(folder, uid)
            shares = f", with {shared_bytes} bytes of shared memory" if shared_bytes else ""
            raise Refused(f"no process could be started{shares} ({error.strerror})") from None
        finally:
            theirs.close()
        self._opened += 1
        candidate = Candidate(pid, uid, limits["cpu_seconds"], tally, request.needs, folder)
        self._reaper.add(candidate)
        return self._opened, candidate, [ours.detach(), *shared]

    def close(self, candidate: Candidate, *, hung_up: bool) -> dict[str, Any]:
        """End a candidate, and say how it ended (see `Reaper.end`)."""
        ended, swept = self._reaper.end(candidate, hung_up=hung_up)
        if candidate.folder is not None:
            self._sweeper.remove(candidate.folder, candidate.uid)
        if swept:
            self._return_uid(candidate.uid)
        return ended

    def answer(
        self, message: dict[str, Any], fds: Sequence[int], candidates: dict[int, Candidate], tally: Tally
    ) -> tuple[dict[str, Any] | None, list[int]]:
        """Do what a message of a phase asks for: the answer, if there is one, and descriptors to send with it and to
        close.

        Args:
            message: with ``op`` open, close, hold or cpu (see `candidates.SpawnerClient`).
            fds: the descriptors that came with it.
            candidates: those of the phase that are open, by their numbers. They are changed here.
        """
        op, number = message.get("op"), message.get("id")
        candidate = candidates.get(number) if type(number) is int else None
        if op == "open":
            try:
                number, candidate, given = self.open(Request.parse(message, fds), tally)
            except Refused as refused:
                return {"op": "refused", "message": str(refused)}, []
            candidates[number] = candidate
            return {"op": "opened", "id": number}, given
        if op == "close":
            ended: dict[str, Any] = {"code": None, "signal": None, "swept": True}
            if candidate is not None:
                del candidates[message["id"]]
                ended = self.close(candidate, hung_up=message.get("hung_up") is True)
            return {"op": "closed", **ended}, []
        if op == "hold":
            done = self._reaper.hold(candidate, held=message.get("held") is True) if candidate else None
            return {"op": "held", "done": done}, []
        if op == "cpu":
            return {"op": "cpu", "seconds": self._reaper.cpu_seconds(candidate) if candidate else None}, []
        return None, []

    def _take_uid(self) -> int | None:
        if self._options.uid_base is None:
            return None
        if not self._free:
            raise Refused("too many candidates are open at once")
        return self._options.uid_base + self._free.pop(0)

    def _return_uid(self, uid: int | None) -> None:
        if uid is not None and self._options.uid_base is not None:
            self._free.append(uid - self._options.uid_base)

    def _prepare_filters(self, needs: frozenset[str]) -> None:
        if self._filter.supported:
            for stage in ("loading", "closed"):
                if taken := self._filter.stage(stage, needs):
                    self._filter.prepare(taken, needs)

    # -- in the child --------------------------------------------------------------------------------------------

    def _run(
        self,
        uid: int | None,
        limits: dict[str, int],
        request: Request,
        sock_fd: int,
        shared: Sequence[int],
        folder: Path | None,
    ) -> None:
        needs, files = request.needs, request.files
        redirect_to_null(0, 1, 2)
        sock_fd, *others = keep_only(sock_fd, *shared, *files.values())
        given: dict[str, Any] = {"shared_memory": mmap.mmap(others[0], 0)} if shared else {}
        given |= {name: f"/proc/self/fd/{fd}" for name, fd in zip(files, others[len(shared) :], strict=True)}
        os.setsid()
        Path("/proc/self/oom_score_adj").write_text("1000")
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_NOFILE, 1024 if "gpu" in needs else 64)
        limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
        with contextlib.suppress(ValueError):
            # gVisor refuses it to every process; the filter refuses the calls as well.
            limit(resource.RLIMIT_MSGQUEUE, 0)
        cpu = limits["cpu_seconds"]
        # The soft limit says why (SIGXCPU); at the hard one the kernel kills without a word.
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        if "gpu" not in needs:  # its driver maps all memory of the machine, and more
            limit(resource.RLIMIT_AS, address_space() + limits["memory_bytes"])
        if uid is not None:
            limit(resource.RLIMIT_NPROC, limits["processes"])
            become(uid)
        os.chdir(folder or "/")
        os.environ.clear()
        self._install_filter("loading", needs)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - lives as long as the process
        candidate_runner.run(
            socket.socket(fileno=sock_fd),
            lambda: self._install_filter("closed", needs),
            self._mapped,
            files=bool({"files", "compiler"} & needs),
            given=given,
        )

    def _install_filter(self, stage: str, needs: frozenset[str]) -> None:
        if self._filter.supported and (taken := self._filter.stage(stage, needs)):
            self._filter.install(taken, needs)


def shared_memory(size: int) -> int:
    """A descriptor of memory that cannot be cut short: a process that reads behind the end of a mapping is killed.

    Raises:
        OSError: there is not so much, or it is more than a file of the sandbox may have.
    """
    fd = os.memfd_create("shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
