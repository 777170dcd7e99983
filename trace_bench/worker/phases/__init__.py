"""The three phases of a job, each a process of its own: build, train, score."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_bench.errors import TraceBenchError
from trace_bench.worker.agent_model import AgentModel
from trace_bench.worker.answer_text import READER
from trace_bench.worker.candidates import CandidatePrograms, SpawnerClient
from trace_bench.worker.exit_codes import SUPERVISOR_GONE
from trace_bench.worker.frames import JsonReader, pack_json
from trace_bench.worker.problem import BuildContext, DeviceLost, Problem, ProblemError, with_objective
from trace_bench.worker.reports import DEVICE_LOST
from trace_bench.worker.seeding import seed_generators
from trace_bench.worker.services import Services


class Link:
    """A phase's connection to the supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = JsonReader()
        self._inbox: list[dict[str, Any]] = []
        # A trainer may report and ask from several threads.
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def send(self, op: str, **fields: Any) -> None:
        """Send one message. A supervisor that is gone ends the phase."""
        try:
            with self._sending:
                self._sock.sendall(pack_json({"op": op, **fields}))
        except OSError:
            os._exit(SUPERVISOR_GONE)

    def receive(self) -> dict[str, Any]:
        """The next message; blocks."""
        with self._receiving:
            while not self._inbox:
                self._read(0)
            return self._inbox.pop(0)

    def poll(self) -> dict[str, Any] | None:
        """The next message if one has arrived."""
        with self._receiving:
            if not self._inbox:
                self._read(socket.MSG_DONTWAIT)
            return self._inbox.pop(0) if self._inbox else None

    def _read(self, flags: int) -> None:
        try:
            data = self._sock.recv(1 << 16, flags)
        except BlockingIOError:
            return
        if not data:
            os._exit(SUPERVISOR_GONE)
        self._inbox.extend(self._reader.feed(data))


class PhaseFailure(Exception):
    """A phase ends with a failure that has a boundary, a kind and a sentence."""

    def __init__(self, boundary: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.boundary, self.kind, self.message = boundary, kind, message


def enter(name: str, ctl: socket.socket, spawn: socket.socket) -> None:
    """Entry point of a freshly forked phase process. Returns when the phase is over."""
    link = Link(ctl)
    module = importlib.import_module(f"trace_bench.worker.phases.{name}")
    module.warm_up()
    start = link.receive()
    if start["gateway_port"] is not None:
        os.environ.update(client_environment(start["gateway_port"], start["job"]["model"]["id"]))
    seed_generators(start["job"]["seed"])
    programs = CandidatePrograms(SpawnerClient(spawn), candidate_seed(start["job"]["seed"]))
    try:
        result = module.run(link, start, programs)
    except PhaseFailure as failure:
        link.send("failed", boundary=failure.boundary, kind=failure.kind, message=failure.message)
    except ProblemError as error:
        link.send("failed", boundary="task", kind=f"{name}_error", message=str(error))
    except DeviceLost as error:
        link.send("failed", boundary=error.boundary.value, kind=DEVICE_LOST, message=str(error))
    except TraceBenchError as error:
        link.send("failed", boundary=error.boundary.value, kind=f"{name}_error", message=str(error))
    except Exception as error:
        traceback.print_exc()
        link.send(
            "failed",
            boundary="trainer" if name == "train" else "task",
            kind=f"{name}_error",
            message=describe(error),
        )
    else:
        link.send("result", **result)


def client_environment(port: int, model: str) -> dict[str, str]:
    """What an OpenAI-compatible client without a configuration of its own needs to find the gateway.

    No secret: the port serves this phase's uid alone, and the key is a word that such clients want to see. Candidates
    have an empty environment.
    """
    base_url = f"http://127.0.0.1:{port}/v1"
    return {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_BASE": base_url,
        "OPENAI_API_KEY": "trace-bench",
        "TRACE_BENCH_MODEL": model,
        # Else litellm looks for a newer table of prices on the network, which is not there.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def candidate_seed(seed: int) -> int:
    """The seed of the generators inside candidates; differs from the task's own use of the job's seed."""
    return (seed * 2654435761 + 97) % (1 << 31)


def describe(error: BaseException) -> str:
    """One line: type, text and the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"[:2000]


def build_problem(
    link: Link, start: dict[str, Any], programs: CandidatePrograms, test_seed: int | None = None
) -> Problem:
    """Build the job's problem in this process.

    Raises:
        PhaseFailure: at the boundary ``task``.
    """
    task = start["job"]["task"]
    task_dir = Path(start["task_dir"])
    sys.dont_write_bytecode = True
    context = BuildContext(
        task_dir=task_dir,
        spec=task["spec"],
        eval_kwargs=task["eval_kwargs"],
        seed=start["job"]["seed"],
        programs=programs,
        test_seed=test_seed,
        services=Services(start["gateway_port"]),
        model=AgentModel(start["gateway_port"], model_of(start["job"]), start["job"].get("reader", READER)),
    )
    module, _, function = task["builder"].partition(":")
    try:
        problem = getattr(importlib.import_module(module), function)(context)
    except ProblemError as error:
        raise PhaseFailure("task", "task_build", str(error)) from error
    except Exception as error:
        traceback.print_exc()
        raise PhaseFailure("task", "task_build", f"the problem does not build: {describe(error)}") from error
    if not isinstance(problem, Problem):
        raise PhaseFailure("task", "task_build", f"{task['builder']} returned no Problem")
    return replace(with_objective(problem, start["job"].get("objective", {})), warn=_Once(link))


def model_of(job: dict[str, Any]) -> str:
    """The name that the job's model is asked by."""
    return str(job["model"].get("model") or job["model"]["id"])


class _Once:
    """Sends the first warning about an invalid score. The supervisor takes one for the whole job."""

    def __init__(self, link: Link) -> None:
        self._link: Link | None = link
        self._lock = threading.Lock()

    def __call__(self, message: str) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.send("warn", message=message, once="score")
