"""A run that is disturbed, and the one oracle of what must hold afterwards."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.cli import TASKS, cli, environment, write_config
from tests.integration.files import check_files, paid_calls
from tests.integration.test_interruption import containers, wait_for
from trace_bench.artifacts.layout import RunLayout
from trace_bench.planning.resume import is_recorded
from trace_bench.sandbox.labels import RUN

ENGINE = Path("/var/run/docker.sock")
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
WHAT_COUNTS = ("score_initial", "score_best", "score_final", "llm_calls")


def run_of(folder: Path) -> Path:
    """The one run that is there. A controller that is killed before it writes the lock leaves a folder without a job,
    and the same command begins the run."""
    found = list((folder / "runs").iterdir())
    if len(found) > 1:
        found = [path for path in found if RunLayout(path).lock.is_file()]
    (run,) = found
    return run


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The results that are there, by job id."""
    if not (folder / "runs").is_dir():
        return {}
    return {p.parent.name: json.loads(p.read_text()) for p in (folder / "runs").glob("*/jobs/*/results.json")}


def finished(folder: Path) -> dict[str, tuple[int, int]]:
    """Of jobs with a result that counts: when it was written, and after how many attempts."""
    found = {}
    for job_id, row in rows_of(folder).items():
        if row["status"] == "ok" and row["stop_reason"] != "interrupted":
            job = run_of(folder) / "jobs" / job_id
            found[job_id] = ((job / "results.json").stat().st_mtime_ns, len(list((job / "attempts").iterdir())))
    return found


def attempts_of(folder: Path, job_id: str) -> list[dict[str, Any]]:
    meta = json.loads((run_of(folder) / "jobs" / job_id / "job_meta.json").read_text())
    return list(meta["attempts"])


def labelled(run_id: str, engine: str | None = None) -> list[str]:
    """Containers and volumes of the run."""
    import docker

    client = docker.APIClient(engine) if engine else docker.from_env().api
    try:
        volumes = client.volumes(filters={"label": f"{RUN}={run_id}"})["Volumes"] or []
    finally:
        client.close()
    return [c["Id"] for c in containers(run_id, engine)] + [v["Name"] for v in volumes]


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to when nothing goes wrong: what counts of each row, and what is paid."""

    rows: Mapping[str, tuple[Any, ...]]
    calls: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, folder: Path) -> Undisturbed:
        rows = {job_id: tuple(row[key] for key in WHAT_COUNTS) for job_id, row in rows_of(folder).items()}
        return cls(rows, tuple(sorted(paid_calls(run_of(folder)))))


def run_undisturbed(folder: Path, home: Path, config: Path, **env: str) -> Undisturbed:
    done = cli("run", "--config", str(config), "--root", str(TASKS), home=home, **env)
    assert done.returncode == 0, done.stderr
    return Undisturbed.of(folder)


@dataclass
class Trial:
    """One run that is disturbed, by its config.

    Attributes:
        engine: address of the engine that it runs on, as in ``DOCKER_HOST``; None is the usual one.
        env: of every controller.
        errors: what each controller said.
    """

    folder: Path
    home: Path
    config: Path
    engine: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_recorded(self) -> bool:
        return (self.folder / "runs").is_dir() and is_recorded(RunLayout(run_of(self.folder)))

    @contextmanager
    def controller(self, **env: str) -> Iterator[subprocess.Popen[str]]:
        """A controller at work; killed at the end of the block if it is still there."""
        where = {"DOCKER_HOST": self.engine} if self.engine else {}
        process = subprocess.Popen(
            [sys.executable, "-m", "trace_bench", "run", "--config", str(self.config), "--root", str(TASKS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(self.home, **{**where, **self.env, **env}),
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            _, err = process.communicate()
            self.errors.append(err)
            self.nothing_finished_is_lost()

    def ended(self, process: subprocess.Popen[str], timeout: float = 120) -> str:
        """Wait for the end of `process`; what it said."""
        with suppress(ValueError):
            process.wait(timeout)
        assert process.stderr is not None
        said = process.stderr.read()
        assert "Traceback" not in said, said
        return said

    def nothing_finished_is_lost(self) -> None:
        """What had finished is there, and was not run again."""
        now = finished(self.folder)
        assert {k: now.get(k) for k in self._known} == self._known
        self._known = now

    def left(self) -> list[str]:
        """What the run has left where its jobs ran."""
        return labelled(run_of(self.folder).name, self.engine)

    def stopped(self) -> None:
        """After a controller that ended in order: nothing is left, and every file is whole."""
        run = run_of(self.folder)
        assert self.left() == []
        assert check_files(run) > 0
        with (run / "results.csv").open(newline="") as file:
            ids = [row["job_id"] for row in csv.DictReader(file)]
        planned = [job["job_id"] for job in json.loads((run / "meta" / "manifest.json").read_text())["jobs"]]
        assert ids == planned, "one row a job, in the order of the plan"

    def finish(self) -> None:
        """The same command once more finishes the run."""
        if self.is_recorded:
            return
        with self.controller() as process:
            said = self.ended(process, 300)
            assert process.returncode == 0, said

    def check(self, undisturbed: Undisturbed) -> None:
        """The oracle: everything about the run is as if nothing had happened to it."""
        self.stopped()
        run = run_of(self.folder)
        assert len(finished(self.folder)) == len(undisturbed.rows)
        paid = paid_calls(run)
        assert len(paid) == len(set(paid)), "no call is paid twice"
        assert Undisturbed.of(self.folder) == undisturbed
        counts = json.loads((run / "summary.json").read_text())["counts"]
        assert counts == {"ok": len(undisturbed.rows), "failed": 0, "interrupted": 0, "skipped": 0}
        assert json.loads((run / "meta" / "lock.json").read_text())["salt"]
        assert self.is_recorded


class Door:
    """A socket in front of the engine's own. Shut, the engine is gone for its clients, as when its daemon is restarted
    with containers kept alive; one container's stream can be cut, and requests can be held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener: socket.socket | None = None
        self._through: list[socket.socket] = []
        self._attached: dict[str, list[socket.socket]] = {}
        self._held: tuple[bytes, threading.Event, threading.Event] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def open(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        assert self._listener is not None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink()
        self._hang_up(self._through)
        self._through.clear()

    def cut(self, container: str) -> None:
        """Break the control stream of a container, and nothing else."""
        self._hang_up(self._attached.pop(container))

    @contextmanager
    def held(self, words: bytes) -> Iterator[threading.Event]:
        """Hold requests with `words` in them until `release` or the end of the block; the event is set once there is
        one."""
        reached = threading.Event()
        self._held = (words, reached, threading.Event())
        try:
            yield reached
        finally:
            self.release()

    def release(self) -> None:
        if self._held is not None:
            self._held[2].set()
        self._held = None

    @staticmethod
    def _hang_up(ends: list[socket.socket]) -> None:
        for end in list(ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(str(ENGINE))
            self._through += [client, engine]
            for source, target in ((client, engine), (engine, client)):
                threading.Thread(target=self._pass_on, args=(source, target, source is client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if asking:
                    self._look_at(data, [source, target])
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _look_at(self, request: bytes, ends: list[socket.socket]) -> None:
        line = request[:500].split(b"\r\n", 1)[0]
        if line.startswith(b"POST ") and b"/attach?" in line:
            self._attached[line.split(b"/containers/", 1)[1].split(b"/", 1)[0].decode()] = ends
        held = self._held
        if held is not None and held[0] in line:
            held[1].set()
            held[2].wait()


@contextmanager
def door() -> Iterator[Door]:
    folder = Path(f"/tmp/tb-door-{os.getpid()}-{time.time_ns()}")  # a socket's path must be short
    folder.mkdir()
    found = Door(folder / "s")
    found.open()
    try:
        yield found
    finally:
        with suppress(AssertionError, OSError):
            found.shut()
        folder.rmdir()


def phase_of(folder: Path, job_id: str) -> str | None:
    """``train`` or ``score``, as the job has printed it last; see ``tests/tasks/phased``."""
    try:
        said = (run_of(folder) / "jobs" / job_id / "stdout.log").read_text().split("PHASE ")
    except (OSError, ValueError):
        return None
    return said[-1].split()[0] if len(said) > 1 and said[-1].strip() else None


def sandbox_of(run_id: str, job_id: str) -> dict[str, Any] | None:
    """The running container of a job."""
    found = [c for c in containers(run_id) if c["Labels"]["trace-bench.job"] == job_id and c["State"] == "running"]
    return found[0] if found else None


def docker(*arguments: str) -> None:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def meet(folder: Path, faults: Mapping[str, tuple[str, Callable[[str], None]]], process: subprocess.Popen[str]) -> None:
    """Let each job meet its fault once, in the phase that it is for.

    Args:
        faults: by job id, the phase, and what is done to the container (its id).
    """
    left = dict(faults)

    def all_met() -> bool:
        for job_id, (phase, deed) in list(left.items()):
            if phase_of(folder, job_id) == phase and (found := sandbox_of(run_of(folder).name, job_id)):
                under_way.append(hands.submit(deed, found["Id"]))
                del left[job_id]
        return not left or process.poll() is not None

    under_way: list[Future[None]] = []
    with ThreadPoolExecutor(4) as hands:  # some deeds take longer than the phase of another job
        wait_for(all_met, 180)
    for deed in under_way:
        deed.result()
    assert not left, "the run ended before all faults were met"


def matrix_config(folder: Path, **config: Any) -> Path:
    """A config without a run id, so that `run` must find the run that it continues."""
    return write_config(folder, **{"trainers": [SEARCH], "max_workers": 3, "retries": 2, **config})
