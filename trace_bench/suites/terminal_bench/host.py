"""The service ``harbor``: one trial for one prompt. On the host; standard library only."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.suites.service import ServiceAnswer, ServiceCall, ServiceError
from trace_bench.suites.terminal_bench.described import SERVICE, TERMINUS, is_harbor_task
from trace_bench.suites.terminal_bench.leftovers import remove_leftovers, values_of
from trace_bench.suites.terminal_bench.program import NO_HARBOR, find_harbor
from trace_bench.suites.terminal_bench.results import NO_COMPOSE, Trial, TrialError
from trace_bench.suites.terminal_bench.started import HarborAhead
from trace_bench.suites.terminal_bench.trial import (
    DatasetTask,
    HarborAgent,
    LocalTask,
    clean_environment,
    run_trial,
)

_TEXT = {"type": "string"}
_STEP = {
    "type": "object",
    "properties": {
        "step": {"type": ["integer", "null"]},
        "source": _TEXT,
        "message": _TEXT,
        "calls": {"type": "array", "items": _TEXT},
        "observation": _TEXT,
    },
    "required": ["step", "source", "message", "calls", "observation"],
}


class HarborService:
    """Runs trials of Harbor; see `trace_bench.suites.service.Service`."""

    name = SERVICE
    at_once = 2
    request_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"prompt": {"type": "string", "maxLength": 100_000}},
        "required": ["prompt"],
        "additionalProperties": False,
    }
    answer_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "rewards": {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1},
            "tests": _TEXT,
            "steps": {"type": "array", "items": _STEP},
            "notes": {"type": "array", "items": _TEXT},
            "seconds": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["rewards", "tests", "steps", "notes"],
        "additionalProperties": False,
    }

    def __init__(self) -> None:
        self._ahead: HarborAhead | None = None
        self._lock = threading.Lock()

    def check(self) -> str:
        program = find_harbor(os.environ)
        if program is None:
            raise EnvironmentUnavailable(NO_HARBOR)
        found = subprocess.run(["docker", "compose", "version", "--short"], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise EnvironmentUnavailable(NO_COMPOSE)
        return f"{program.name} is here, Compose {found.stdout.strip()}"

    def answer(self, call: ServiceCall) -> ServiceAnswer:
        given = call.eval_kwargs
        program = find_harbor(os.environ)
        if program is None:
            raise ServiceError("provider", NO_HARBOR)
        own_model = str(given.get("harbor_model") or "")
        variables = _variables(given["harbor_extra_env"])
        arguments = _arguments(given["harbor_agent_kwargs"])
        templated = given["harbor_agent"] == TERMINUS
        if templated and not own_model:
            variables |= {"OPENAI_API_KEY": call.model.token, "OPENAI_BASE_URL": call.model.base_url}
            arguments = {**_TERMINUS_ARGUMENTS, "api_base": call.model.base_url, **arguments}
        agent = HarborAgent(
            name=str(given["harbor_agent"]),
            model=own_model or f"openai/{call.model.model}",
            template=call.request["prompt"] if templated else None,
            prefix="" if templated else call.request["prompt"],
            arguments=arguments,
        )
        try:
            trial = run_trial(
                self._program(program),
                _task(call),
                agent,
                limit=float(given["harbor_timeout_seconds"]),
                network=bool(given["harbor_network"]),
                environment=str(given["harbor_env"]),
                labels=call.labels,
                variables=variables,
                stop=call.stopped,
            )
        except TrialError as error:
            raise ServiceError("task" if error.kind == "task" else "provider", error.message) from error
        except ValueError as error:
            raise ServiceError("task", str(error)) from error
        _keep(trial, call.folder)
        return ServiceAnswer(_body(trial))

    def left(self, label: str, name: str) -> set[str]:
        return values_of(name, label, os.environ)

    def close(self) -> None:
        with self._lock:
            if self._ahead is not None:
                self._ahead.close()
                self._ahead = None

    def _program(self, program: Path) -> HarborAhead:
        """`program`, with a process of it started ahead."""
        with self._lock:
            if self._ahead is None:
                self._ahead = HarborAhead([str(program)], lambda place: clean_environment(os.environ, place, {}))
            return self._ahead

    def stub(self, request: Mapping[str, Any]) -> ServiceAnswer:
        note = "No trial was run: the stub model cannot drive an agent."
        return ServiceAnswer({"rewards": {"reward": 0.0}, "tests": "", "steps": [], "notes": [note]})

    def sweep(self, label: str) -> list[str]:
        return remove_leftovers([label], os.environ)


_TERMINUS_ARGUMENTS: Mapping[str, object] = {
    "record_terminal_session": False,
    # What litellm would look up by the model's name, which is one of ours here.
    "model_info": {"max_input_tokens": 128_000, "max_output_tokens": 16_384},
}


def _task(call: ServiceCall) -> LocalTask | DatasetTask:
    """
    Raises:
        ServiceError: no task is named, or two.
    """
    given = call.eval_kwargs
    path, dataset = (str(given.get(name) or "") for name in ("harbor_task_path", "harbor_dataset"))
    if path:
        return LocalTask(Path(path).absolute())
    if is_harbor_task(call.task_folder):
        return LocalTask(call.task_folder.absolute())
    name = str(call.spec.get("harbor", {}).get("task") or call.task_id.partition(":")[2])
    if not dataset:
        raise ServiceError("task", f"{call.task_id} names no data set; set harbor_dataset, or harbor_task_path")
    registry = str(given.get("harbor_registry_path") or "")
    return DatasetTask(dataset, name, Path(registry).absolute() if registry else None)


def _arguments(given: list[Any]) -> dict[str, object]:
    """``NAME=VALUE`` texts as a mapping.

    Raises:
        ServiceError: one has no name.
    """
    found: dict[str, object] = {}
    for text in map(str, given):
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ServiceError("task", f"harbor_agent_kwargs: {text!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _variables(given: list[Any]) -> dict[str, str]:
    """Return the variables of ``NAME=VALUE`` texts, and of names of variables of this host.

    Raises:
        ServiceError: a variable is not set on this host.
    """
    found: dict[str, str] = {}
    for text in map(str, given):
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise ServiceError("provider", f"harbor_extra_env: {name} is not set on this host; set it")
        found[name] = _text_of(value) if equals else os.environ[name]
    return found


def _text_of(value: str) -> str:
    """Return a value that was written as JSON (`trace_bench.arguments.pair`) as the text of a variable.

    >>> _text_of("debug"), _text_of('"3"'), _text_of("3")
    ('debug', '3', '3')
    """
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, str) else value


def _body(trial: Trial) -> dict[str, Any]:
    return {
        "rewards": dict(trial.rewards),
        "tests": trial.tests,
        "steps": [dict(step) for step in trial.steps],
        "notes": list(trial.notes),
        "seconds": dict(trial.seconds),
    }


def _keep(trial: Trial, folder: Path) -> None:
    """Leave the trajectory (ATIF) with the job."""
    if trial.trajectory is not None:
        (folder / "trajectory.json").write_text(json.dumps(trial.trajectory, indent=1), encoding="utf-8")
