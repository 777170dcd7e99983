"""Runs one trial of Harbor on this host, as a program of its own.

Harbor needs Python 3.12 and a Docker engine with Compose v2, so it is never imported. The program gets a clean
environment and private folders. It runs in a session of its own, and all of the session is ended with it. What it
leaves on the engine carries labels and is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from trace_bench.suites.terminal_bench.leftovers import remove_leftovers
from trace_bench.suites.terminal_bench.program import NO_HARBOR
from trace_bench.suites.terminal_bench.results import (
    NO_COMPOSE,
    NO_ENGINE,
    Redact,
    Trial,
    TrialError,
    read_trial,
    refused,
    trial_folders,
)
from trace_bench.suites.terminal_bench.started import Harbor, Started
from trace_bench.suites.terminal_bench.template import check_template

LABEL = "trace-bench.trial"
"""Label of all that a trial makes on the engine; its value is unlike that of any other trial."""

_PASSED_ON = ("PATH", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
_MODULE = "trace_bench_terminus"
_LONGEST_OUTPUT = 64 << 10
"""Bytes of what the program prints that are kept, from its end."""
_POLL = 0.05
_GRACE = {signal.SIGINT: 20.0, signal.SIGTERM: 5.0, signal.SIGKILL: 5.0}
"""Seconds that the program has after each signal. After the first it removes its containers."""
_PATIENCE = 1.0
"""Seconds for which the engine has to be quiet after a trial that was ended by force."""


class Stop(Protocol):
    """What `threading.Event` has."""

    def is_set(self) -> bool:
        """True if the trial has to end."""
        ...


@dataclass(frozen=True)
class LocalTask:
    """A task in a folder.

    Attributes:
        folder: has ``task.toml``.
    """

    folder: Path


@dataclass(frozen=True)
class DatasetTask:
    """A task of a data set.

    Attributes:
        dataset: ``name@version``.
        name: the name of one task of it; no pattern.
        registry: a JSON file with data sets; None asks Harbor's own registry.
    """

    dataset: str
    name: str
    registry: Path | None = None


@dataclass(frozen=True)
class HarborAgent:
    """Who works on the task.

    Attributes:
        name: Harbor's name of an agent, such as ``oracle`` (runs the solution of the task), ``nop`` (does nothing) or
            ``terminus-2``. Ignored if there is a template.
        model: as litellm names it, such as ``openai/gpt-5``; None for agents that ask no model.
        template: a prompt template for Terminus-2; see `trace_bench.suites.terminal_bench.template`.
        prefix: a text before the instruction, of agents that Harbor installs; ignored if there is a template.
        arguments: of the agent, such as ``api_base`` or ``max_turns``. Values are anything that JSON has. Harbor writes
            them into its files, so none may be a secret.
    """

    name: str = "oracle"
    model: str | None = None
    template: str | None = None
    prefix: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)


def run_trial(  # long, as what it starts is removed in one block
    harbor: Harbor,
    task: LocalTask | DatasetTask,
    agent: HarborAgent,
    *,
    limit: float,
    network: bool = False,
    environment: str = "docker",
    labels: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stop: Stop | None = None,
) -> Trial:
    """Run one trial, and remove whatever it leaves.

    Args:
        limit: wall time of the whole program, in seconds.
        network: False takes the network from the container of the task (Docker alone). Harbor itself does not know of
            it. A verifier that a task runs in a container of its own keeps its network, and has none of the labels.
        environment: Harbor's name of an environment.
        labels: of the container ``main`` and of the network of the task, beside one of the trial's own (Docker alone).
        variables: that the program gets beside its clean environment, such as the key of a model.
        environ: where ``PATH`` and the variables of the docker command come from; by default those of this process.
        folder: where the private folder is made; by default that for temporary files. The engine has to see it at the
            same place.
        stop: ends the trial when it is set.

    Raises:
        TrialError: there are no rewards; its `kind` says whose fault it is.
        ValueError: a template or an argument cannot be used.
    """
    given = os.environ if environ is None else environ
    extra = dict(variables or {})
    _check(agent, task)
    with harbor.opened(folder) as started:
        place = started.place
        environment_of_program = clean_environment(given, place, extra)
        redact = _redactor(harbor, task, agent, place, given, extra)
        _check_task(task)
        docker = environment == "docker"
        if docker:
            _check_engine(environment_of_program)
        own = secrets.token_hex(8)
        words = ["run", *_task_words(task), *_agent_words(agent, place), "-e", environment,
                   "-o", str(place / "jobs"), "--job-name", "job", "-n", "1", "-y", "-q"]  # fmt: skip
        if docker:
            written = place / "overlay.json"
            content = overlay({**(labels or {}), LABEL: own}, network=network)
            written.write_text(json.dumps(content), encoding="utf-8")
            words += ["--extra-docker-compose", str(written)]
        ended: _Ended | None = None
        try:
            ended = _run(started, words, environment_of_program, limit, stop)
        finally:
            left: list[str] = []
            if docker:
                normal = ended is not None and ended.by is None and ended.code >= 0
                names = [one.name for one in trial_folders(place / "jobs" / "job")]
                patience = 0.0 if normal else _PATIENCE
                left = remove_leftovers([f"{LABEL}={own}"], environment_of_program, trials=names, patience=patience)
        trial = _judged(ended, place / "jobs" / "job", redact, agent, limit)
    seconds = {**trial.seconds, "program": round(ended.seconds, 3)}
    notes = [*trial.notes, *([f"{len(left)} things of the trial could not be removed from the engine"] if left else [])]
    return replace(trial, seconds=seconds, notes=notes)


def clean_environment(environ: Mapping[str, str], place: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: what the docker command needs, private folders in `place`, and `variables`.

    The docker command keeps its contexts and plugins in ``~/.docker``. That folder is passed on as ``DOCKER_CONFIG``,
    as the program gets another home.
    """
    found = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    found.setdefault("PATH", os.defpath)
    if "DOCKER_CONFIG" not in found and (config := Path(environ.get("HOME") or "/nowhere") / ".docker").is_dir():
        found["DOCKER_CONFIG"] = str(config)
    return {
        **found,
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "PYTHONPATH": str(place / "agent"),
        "LANG": "C.UTF-8",
        "COLUMNS": "400",  # errors stay in one line
        "NO_COLOR": "1",
        "HARBOR_TELEMETRY": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **variables,
    }


def overlay(labels: Mapping[str, str], *, network: bool) -> dict[str, object]:
    """A Compose file that is laid over those of the task.

    Its containers end at once and can be found again by `labels`. Without `network`, they have none.
    """
    escaped = {key: value.replace("$", "$$") for key, value in labels.items()}  # Compose replaces $NAME
    main: dict[str, object] = {"init": True, "hostname": "trial", "stop_grace_period": "1s", "labels": escaped}
    if not network:
        main["network_mode"] = "none"
    return {"services": {"main": main}, "networks": {"default": {"labels": escaped}}}


@dataclass(frozen=True)
class _Ended:
    """How the program ended.

    Attributes:
        code: exit code; negative is a signal.
        by: why we ended it; None if it ended by itself.
        output: the end of what it printed.
        seconds: that it ran.
    """

    code: int
    by: str | None
    output: str
    seconds: float


def _judged(ended: _Ended, job: Path, redact: Redact, agent: HarborAgent, limit: float) -> Trial:
    if ended.by == "stop":
        raise TrialError("cancelled", "the trial was stopped before it ended; run it again for a result")
    if ended.by == "limit":
        raise TrialError(
            "timeout", f"the trial did not end within {limit:g} s; raise the limit or shorten the task's own"
        )
    trial = read_trial(job, redact, has_model=agent.model is not None)
    if trial is None:
        raise refused(ended.code, ended.output, redact)
    return trial


def _run(
    started: Started, words: Sequence[str], environment: Mapping[str, str], limit: float, stop: Stop | None
) -> _Ended:
    """Run the program in a session of its own until it ends, `limit` seconds are over or `stop` is set.

    Whatever is left of its process group is killed.
    """
    begun = time.monotonic()
    try:
        process = started.begin(words, environment)
    except OSError as error:
        raise TrialError("infrastructure", NO_HARBOR) from error
    output = _Output(process)
    by = None
    try:
        while not _has_ended(process.pid):
            if stop is not None and stop.is_set():
                by = "stop"
            elif time.monotonic() - begun > limit:
                by = "limit"
            if by is not None:
                break
            time.sleep(_POLL)
        if by is not None:
            _end(process.pid)
    finally:
        # The leader is not reaped yet, so the number of the group cannot be that of another one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return _Ended(code, by, output.text(), time.monotonic() - begun)


def _end(pid: int) -> None:
    """Ask the program to end, then its group, and at last kill the group."""
    for number, grace in _GRACE.items():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number == signal.SIGINT:  # the docker commands of its group are left to it
                os.kill(pid, number)
            else:
                os.killpg(pid, number)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if _has_ended(pid):
                return
            time.sleep(_POLL)


def _has_ended(pid: int) -> bool:
    """True if the process has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class _Output:
    """Reads all that a program prints, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._pipe = process.stdout
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe as pipe:
            while chunk := pipe.read1(1 << 16):  # type: ignore[attr-defined]
                self._kept = (self._kept + chunk)[-_LONGEST_OUTPUT:]

    def text(self) -> str:
        self._thread.join(5.0)  # a program that left the group may hold the pipe open
        return self._kept.decode("utf-8", "replace")


def _check(agent: HarborAgent, task: LocalTask | DatasetTask) -> None:
    if agent.template is not None:
        check_template(agent.template)
        if agent.model is None:
            raise ValueError("an agent with a template needs a model")
    for name in agent.arguments:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid name of an agent's argument")
    if isinstance(task, DatasetTask) and (not task.name or set(task.name) & set("*?[]")):
        raise ValueError(f"{task.name!r} is not the name of one task; a pattern could match several")


def _check_task(task: LocalTask | DatasetTask) -> None:
    if isinstance(task, DatasetTask):
        if task.registry is not None and not task.registry.is_file():
            raise TrialError("task", "the file with the data sets is not there; correct its path")
        return
    described = task.folder / "task.toml"
    if not described.is_file():
        raise TrialError("task", f"the folder {task.folder.name} is not a task of Harbor: it has no task.toml; add one")
    try:
        tomllib.loads(described.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TrialError("task", f"task.toml of {task.folder.name} cannot be read ({error}); repair it") from error


def _check_engine(environment: Mapping[str, str]) -> None:
    """Raises TrialError unless an engine and Compose v2 answer the docker command."""
    for arguments, sentence in (
        (["version", "--format", "{{.Server.Version}}"], NO_ENGINE),
        (["compose", "version", "--short"], NO_COMPOSE),
    ):
        try:
            done = subprocess.run(
                ["docker", *arguments],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30,
                check=False,
            )
        except FileNotFoundError as error:
            raise TrialError("infrastructure", "no docker command on PATH; install Docker's client") from error
        except subprocess.TimeoutExpired as error:
            raise TrialError("infrastructure", sentence) from error
        if done.returncode != 0:
            raise TrialError("infrastructure", sentence)


def _task_words(task: LocalTask | DatasetTask) -> list[str]:
    if isinstance(task, LocalTask):
        return ["-p", str(task.folder.resolve())]
    words = ["-d", task.dataset, "-i", task.name]
    return words + (["--registry-path", str(task.registry.resolve())] if task.registry is not None else [])


def _agent_words(agent: HarborAgent, place: Path) -> list[str]:
    """The words that name the agent; its class and its template are written into `place`."""
    arguments = dict(agent.arguments)
    name = agent.name
    if agent.template is not None:
        source = files("trace_bench.suites.terminal_bench").joinpath("agent.py").read_text(encoding="utf-8")
        (place / "agent" / f"{_MODULE}.py").write_text(source, encoding="utf-8")
        written = place / "agent" / "template.txt"
        written.write_text(agent.template, encoding="utf-8")
        name = f"{_MODULE}:TemplatedTerminus2"
        arguments = {"record_terminal_session": False, **arguments, "prompt_template_path": str(written)}
    elif agent.prefix:
        written = place / "agent" / "template.j2"
        # A literal of JSON is one of Jinja too, so nothing in the text is taken for a part of the template.
        written.write_text(f"{{{{ {json.dumps(agent.prefix)} }}}}\n\n{{{{ instruction }}}}\n", encoding="utf-8")
        arguments["prompt_template_path"] = str(written)
    words = ["-a", name, *(["-m", agent.model] if agent.model is not None else [])]
    for key, value in arguments.items():
        words += ["--ak", f"{key}={json.dumps(value)}"]
    return words


def _redactor(
    harbor: Harbor, task: LocalTask | DatasetTask, agent: HarborAgent, place: Path, environ: Mapping[str, str],
    variables: Mapping[str, str],
) -> Redact:  # fmt: skip
    """Takes folders of this machine, the values of `variables` and the addresses among the arguments out of a text."""
    program = Path(harbor.command[0]).absolute()
    names: dict[str, str] = {}
    for name, path in {
        "HOME": Path(environ.get("HOME") or "/nowhere"),
        "HARBOR": program.parent.parent,
        "TASK": task.folder if isinstance(task, LocalTask) else (task.registry or place).parent,
        "JOB": place,
    }.items():
        names |= {str(one): name for one in (path.absolute(), path.resolve()) if len(one.parts) > 1}
    values = [*variables.values(), *(v for v in agent.arguments.values() if isinstance(v, str) and "://" in v)]
    names |= {value: "***" for value in values if len(value) >= 6}
    ordered = sorted(names.items(), key=lambda pair: -len(pair[0]))

    def redact(text: str) -> str:
        for found, name in ordered:
            text = text.replace(found, name)
        return text

    return redact
