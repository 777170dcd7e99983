"""Reads what a trial of Harbor left in its folder: rewards, or the reason why there are none.

A trial that failed is never a reward of zero. Harbor's exit code and the mean of its job are ignored: the code is 0 if
all trials failed, and the mean counts them as 0.

The container of a trial writes to some of these folders. They are read without following links.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

Kind = Literal["task", "provider", "infrastructure", "timeout", "cancelled"]

MEBIBYTE = 1 << 20
LONGEST_RESULT = 16 * MEBIBYTE
"""Bytes of a result.json that are read."""
LONGEST_TRAJECTORY = 4 * MEBIBYTE
"""Bytes of a trajectory that is handed on whole."""
LONGEST_PARSED = 64 * MEBIBYTE
"""Bytes of a trajectory whose last steps are read."""
LONGEST_TESTS = 8000
"""Characters of the output of the tests, from its end."""
LONGEST_TEXT = 2000
"""Characters of each text of a step."""
LONGEST_MESSAGE = 600
"""Characters of what an error quotes."""
LAST_STEPS = 8
"""Steps of a trajectory that a result shows."""

PHASES = {
    "environment_setup": "environment_setup",
    "agent_setup": "agent_setup",
    "agent_execution": "agent",
    "verifier": "verifier",
}
"""Harbor's name of each phase, and ours."""

_TIMEOUTS = {
    "AgentTimeoutError": "the agent did not finish in time and the verifier gave no reward; raise [agent] timeout_sec",
    "VerifierTimeoutError": "the tests did not finish in time; raise [verifier] timeout_sec or make the tests faster",
    "AgentSetupTimeoutError": "the agent was not set up in time; put what it needs into the image of the task",
    "EnvironmentStartTimeoutError": "the environment did not start in time; raise [environment] build_timeout_sec",
}
_TASK_FAULTS = {
    "RewardFileNotFoundError": "the tests wrote no reward; tests/test.sh has to write /logs/verifier/reward.txt",
    "RewardFileEmptyError": "the tests wrote an empty reward; tests/test.sh has to write a number",
    "VerifierOutputParseError": "the reward that the tests wrote is not a finite number; repair tests/test.sh",
    "HealthcheckError": "the environment never became healthy; repair the healthcheck of the task",
    "SandboxBuildFailedError": "the image of the task does not build; repair environment/Dockerfile",
}
# Classes of litellm and of Harbor's own calls of models. Names are all that a result has.
_PROVIDER_FAULTS = frozenset(
    {
        "APIConnectionError", "APIError", "APIResponseValidationError", "AgentAuthenticationError",
        "AgentSafetyRefusalError", "ApiUsageLimitError", "AuthenticationError", "BadGatewayError", "BadRequestError",
        "BudgetExceededError", "ContentPolicyViolationError", "ContextLengthExceededError",
        "ContextWindowExceededError", "InternalServerError", "InvalidRequestError", "MidStreamFallbackError",
        "ModelNotFoundError", "NotFoundError", "OpenAIError", "OutputLengthExceededError", "PaymentRequiredError",
        "PermissionDeniedError", "RateLimitError", "RejectedRequestError", "ServiceUnavailableError", "Timeout",
        "UnprocessableEntityError", "UnsupportedParamsError",
    }
)  # fmt: skip
_NO_ENGINE = re.compile(
    r"Cannot connect to the Docker daemon|error during connect|failed to connect to the docker API"
    r"|Docker daemon is not running|Docker is not installed",
    re.IGNORECASE,
)
_NO_COMPOSE = re.compile(
    r"unknown flag: --project-name|compose' is not a docker command|unknown command: docker compose"
)
_NO_IMAGE = re.compile(
    r"pull access denied|manifest unknown|/manifests/|Error response from daemon: Get |manifest for .* not found"
)
_COMPOSE = re.compile(
    r"Docker compose command failed.*?Command: (.*?)\. Return code: (-?\d+)\. Stdout: (.*?)(?:\. Stderr: None\. )?$",
    re.DOTALL,
)

NO_ENGINE = "no Docker engine answers; start it, or set DOCKER_HOST to one that runs"
NO_COMPOSE = (
    "the docker command has no Compose v2, which Harbor needs; "
    "run scripts/compose-v2 FOLDER and set DOCKER_CONFIG to FOLDER"
)


class TrialError(Exception):
    """A trial that has no rewards.

    Attributes:
        kind: whose fault it is. ``task``: the task or its image. ``provider``: the endpoint of the model.
            ``infrastructure``: Harbor, the engine or this machine. ``timeout``: a limit was reached. ``cancelled``: the
            caller stopped it.
        message: one sentence that says what happened and what to do. It names no private folder and no secret.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message


@dataclass(frozen=True)
class Trial:
    """What one trial of Harbor gave.

    Attributes:
        rewards: from the tests, at least one; each is a finite number. A task that writes ``reward.txt`` has ``reward``
            alone.
        tests: the end of what the tests printed.
        steps: the last steps of the agent, oldest first; see `last_steps`. Empty if the agent keeps no trajectory.
        input_tokens: of all calls of the model; None if the agent does not count them.
        output_tokens: likewise.
        cost_usd: US dollars by the price list of the model; None if that is unknown.
        seconds: of each phase that ran (``environment_setup``, ``agent_setup``, ``agent``, ``verifier``), of the
            ``trial`` and of the whole ``program``.
        trajectory: the whole ATIF trajectory; None if there is none, or it has more than `LONGEST_TRAJECTORY` bytes.
        notes: sentences on what a reader has to know, such as that the agent ran out of time.
        task: the name that the task gives itself.
        checksum: Harbor's hash of the task.
    """

    rewards: Mapping[str, float]
    tests: str = ""
    steps: Sequence[Mapping[str, Any]] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    trajectory: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()
    task: str = ""
    checksum: str = ""


Redact = Callable[[str], str]
"""Takes private folders and secrets out of a text."""


def read_trial(job: Path, redact: Redact = str, *, has_model: bool = False) -> Trial | None:
    """The result of the one trial in the folder of a job; None if Harbor wrote no result of a trial.

    An agent that ran out of time (``AgentTimeoutError``) is judged all the same: Harbor runs the tests on what it has
    done so far. Such a trial counts if it has rewards, and has a note. If the agent has a model that never answered, it
    does not count: that is the fault of the provider.

    Args:
        has_model: the agent asks a model.

    Raises:
        TrialError: the trial failed, or its result cannot be read.
    """
    found = _result(job)
    if found is None:
        return None
    folder, result = found
    trajectory, size = _trajectory(folder)
    steps = last_steps(trajectory) if trajectory is not None else []
    notes: list[str] = []
    failure = result.get("exception_info")
    rewards = _rewards(result)
    if failure is not None:
        name = str(failure.get("exception_type", "")) if isinstance(failure, dict) else ""
        if name != "AgentTimeoutError" or not rewards:
            raise classified(failure, result, redact)
        if has_model and trajectory is not None and not _answered(trajectory):
            raise TrialError(
                "provider", "the model gave no answer before the agent ran out of time; check the endpoint of the model"
            )
        notes.append("the agent ran out of time, and the tests judged what it had done until then")
    if not rewards:
        raise TrialError(
            "task", "the verifier gave no rewards, or a reward that is not a finite number; repair tests/test.sh"
        )
    if trajectory is not None and size > LONGEST_TRAJECTORY:
        notes.append(f"the trajectory has {size} bytes and is left out")
        trajectory = None
    if all(os.path.lexists(folder / "verifier" / name) for name in ("reward.txt", "reward.json")):
        notes.append("there are two files with rewards, reward.json counts, and the agent may have written it")
    agent = _mapping(result.get("agent_result"))
    return Trial(
        rewards=rewards,
        tests=tail(folder / "verifier" / "test-stdout.txt", LONGEST_TESTS),
        steps=steps,
        input_tokens=_whole(agent.get("n_input_tokens")),
        output_tokens=_whole(agent.get("n_output_tokens")),
        cost_usd=_number(agent.get("cost_usd")),
        seconds=_seconds(result),
        trajectory=trajectory,
        notes=notes,
        task=str(result.get("task_name", "")),
        checksum=str(result.get("task_checksum", "")),
    )


def _result(job: Path) -> tuple[Path, dict[str, Any]] | None:
    """The folder of the one trial of a job, and its result; None if there is none."""
    folders = trial_folders(job)
    if len(folders) > 1:
        raise TrialError(
            "task", f"one trial was asked for and Harbor ran {len(folders)}; name one task of the data set"
        )
    content = _read(folders[0] / "result.json", LONGEST_RESULT) if folders else None
    if content is None:
        return None
    result = _json(content)
    if not isinstance(result, dict):
        raise TrialError("infrastructure", "Harbor's result of the trial cannot be read; run the trial again")
    return folders[0], result


def trial_folders(job: Path) -> list[Path]:
    """The folders of trials in the folder of a job."""
    try:
        found = sorted(job.iterdir())
    except OSError:
        return []
    return [
        one for one in found if one.is_dir() and any((one / name).is_file() for name in ("lock.json", "result.json"))
    ]


def classified(failure: object, result: Mapping[str, Any], redact: Redact = str) -> TrialError:
    """The error for Harbor's ``exception_info``; it names the phase where the type alone says little."""
    found = _mapping(failure)
    name, said = str(found.get("exception_type", "")), str(found.get("exception_message", ""))
    quoted = redact(said)
    if name in _TIMEOUTS:
        return TrialError("timeout", _TIMEOUTS[name])
    if name in _TASK_FAULTS:
        return TrialError("task", _TASK_FAULTS[name])
    if name in _PROVIDER_FAULTS:
        return TrialError(
            "provider", f"the model cannot be asked ({name}: {short(quoted)}); check its endpoint, its name and the key"
        )
    if _NO_ENGINE.search(said):
        return TrialError("infrastructure", NO_ENGINE)
    if _NO_COMPOSE.search(said):
        return TrialError("infrastructure", NO_COMPOSE)
    if (compose := _COMPOSE.search(said)) is not None:
        return _compose_failed(compose[1], redact(compose[3]))
    if "tmux" in said.lower():
        return TrialError(
            "task",
            f"the agent cannot start tmux in the container ({short(quoted)}); put tmux into the image of the task",
        )
    if name == "FileNotFoundError" and ("test script" in said or "olution" in said):
        return TrialError("task", f"a file of the task is missing ({short(quoted)}); add it to the folder of the task")
    if name == "ValueError" and "network" in said.lower():
        return TrialError(
            "task", f"the environment cannot give the task the network that it asks for ({short(quoted)}); "
            "set network_mode to public in task.toml"
        )  # fmt: skip
    if name == "CancelledError":
        return TrialError("infrastructure", "Harbor was interrupted during the trial; run the trial again")
    phase = _phase(result)
    return TrialError(
        "infrastructure", f"the trial failed in the phase {phase} ({name}: {short(quoted)}); "
        "look at Harbor's log of the trial"
    )  # fmt: skip


def refused(code: int, output: str, redact: Redact = str) -> TrialError:
    """The error for a program that ended with `code` and left no result of a trial; `output` is what it printed."""
    if code < 0:
        return TrialError("infrastructure", f"the program harbor was killed by signal {-code}; run the trial again")
    lines = [line.strip() for line in redact(output).splitlines() if line.strip() and line.strip()[0] not in "│╰╭"]
    last = short(" ".join(lines[-2:])) if lines else "it printed nothing"
    if _NO_ENGINE.search(output):
        return TrialError("infrastructure", NO_ENGINE)
    if (network := re.search(r"network_mode='[a-z-]+' is not supported", output)) is not None:
        return TrialError("task", f"{network[0]} by this environment; set it to public in task.toml and run it without")
    if "Either datasets or tasks must be provided" in last:
        return TrialError(
            "task",
            "Harbor cannot read the folder as a task; "
            "it needs a valid task.toml, instruction.md, environment/ and tests/",
        )
    if "No tasks matched" in last:
        return TrialError("task", f"the data set has no such task ({last}); correct the name of the task")
    if "Error getting dataset" in last or "ConnectError" in output:
        return TrialError(
            "infrastructure", f"the data set cannot be reached ({last}); check the network, or use a folder of tasks"
        )
    if re.search(r"[Dd]ataset .*not found", last):
        return TrialError("task", f"no such data set ({last}); correct its name and version")
    return TrialError("infrastructure", f"harbor ended with exit code {code} and no result ({last}); correct the call")


def last_steps(trajectory: Mapping[str, Any], most: int = LAST_STEPS) -> list[dict[str, Any]]:
    """The last `most` steps of an ATIF trajectory, oldest first, with short texts.

    Each has ``step`` (number), ``source`` (``system``, ``user`` or ``agent``), ``message``, ``calls`` (one text each:
    the keystrokes of a terminal, or the name and arguments of a tool) and ``observation``.

    >>> last_steps({"steps": [{"step_id": 1, "source": "user", "message": "Count the lines."}]})
    [{'step': 1, 'source': 'user', 'message': 'Count the lines.', 'calls': [], 'observation': ''}]
    """
    steps = trajectory.get("steps")
    found = []
    for number, step in enumerate(steps if isinstance(steps, list) else [], start=1):
        if not isinstance(step, dict):
            continue
        calls = step.get("tool_calls")
        results = _mapping(step.get("observation")).get("results")
        seen = [_text(_mapping(one).get("content")) for one in results] if isinstance(results, list) else []
        called = [_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        found.append(
            {
                "step": _whole(step.get("step_id")) or number,
                "source": str(step.get("source", "")),
                "message": _bounded(_text(step.get("message"))),
                "calls": [_bounded(call) for call in called],
                "observation": _bounded("\n".join(seen)),
            }
        )
    return found[-most:]


def tail(path: Path, most: int) -> str:
    """The last `most` characters of a file, or of the 4 `most` bytes at its end; empty if it is no regular file."""
    content = _read(path, 4 * most, end=True)
    return (content or b"").decode("utf-8", "replace")[-most:]


def short(text: str, most: int = LONGEST_MESSAGE, *, lines: bool = False) -> str:
    """`text` without its middle if it has more than `most` characters; in one line unless `lines`.

    >>> short("a\\nb"), short("abcdefghij", 7)
    ('a b', 'ab ... ij')
    """
    text = text if lines else " ".join(text.split())
    if len(text) <= most:
        return text
    half = max(1, (most - 3) // 2)
    return f"{text[:half]} ... {text[-half:]}"


def _bounded(text: str) -> str:
    """A text of a step without the empty lines of a screen, and without its middle if it is long."""
    return short(re.sub(r"\n\s*\n\s*\n+", "\n\n", text).rstrip(), LONGEST_TEXT, lines=True)


def _compose_failed(command: str, output: str) -> TrialError:
    actions = re.findall(r" (build|up|cp|exec|config|pull)(?= |$)", command)
    action = actions[-1] if actions else "command"
    lines = [
        line for line in output.splitlines() if line.strip() and not re.search(r"^#\d+ .*(DONE|CACHED)|^-+$", line)
    ]
    last = short(re.sub(r" on [0-9.]+:53\b", "", " ".join(lines[-6:])))  # not the address of a name server
    if "no space left on device" in output:
        return TrialError("infrastructure", "the disk of the engine is full; remove images and containers from it")
    if _NO_IMAGE.search(output):
        return TrialError(
            "infrastructure", f"an image that the task needs cannot be pulled ({last}); pull or build it beforehand"
        )
    if action == "build":
        return TrialError("task", f"the image of the task does not build ({last}); repair environment/Dockerfile")
    return TrialError("infrastructure", f"docker compose {action} failed ({last}); look at the engine's log")


def _phase(result: Mapping[str, Any]) -> str:
    """The phase that began last."""
    begun = [ours for theirs, ours in PHASES.items() if _mapping(result.get(theirs)).get("started_at")]
    return begun[-1] if begun else "start"


def _rewards(result: Mapping[str, Any]) -> dict[str, float]:
    """The rewards; empty unless there is one and all are finite numbers."""
    found = _mapping(_mapping(result.get("verifier_result")).get("rewards"))
    rewards = {str(name): _number(value) for name, value in found.items()}
    if any(value is None for value in rewards.values()):
        return {}
    return {name: value for name, value in rewards.items() if value is not None}


def _seconds(result: Mapping[str, Any]) -> dict[str, float]:
    spans = {ours: _mapping(result.get(theirs)) for theirs, ours in PHASES.items()} | {"trial": result}
    found = {}
    for name, span in spans.items():
        try:
            begun, ended = (datetime.fromisoformat(str(span.get(key))) for key in ("started_at", "finished_at"))
            found[name] = round((ended - begun).total_seconds(), 3)
        except (TypeError, ValueError):
            continue  # this phase did not run, or did not end
    return found


def _trajectory(folder: Path) -> tuple[dict[str, Any] | None, int]:
    """The ATIF trajectory of the agent, if there is one that can be read, and its bytes."""
    content = _read(folder / "agent" / "trajectory.json", LONGEST_PARSED)
    if content is None:
        return None, 0
    found = _json(content)
    if not isinstance(found, dict) or not str(found.get("schema_version", "")).startswith("ATIF-"):
        return None, 0
    return found, len(content)


def _answered(trajectory: Mapping[str, Any]) -> bool:
    return any(step["source"] == "agent" for step in last_steps(trajectory, 1 << 30))


def _call(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments")
    if isinstance(arguments, dict) and isinstance(arguments.get("keystrokes"), str):
        return str(arguments["keystrokes"])
    return f"{call.get('function_name', '')} {json.dumps(arguments)}"


def _text(content: object) -> str:
    """The text of a message, which is a text or a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return content if isinstance(content, str) else ""


def _read(path: Path, most: int, *, end: bool = False) -> bytes | None:
    """A regular file of at most `most` bytes, or, with `end`, the last `most` bytes of it; else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or (state.st_size > most and not end):
            return None
        file.seek(max(0, state.st_size - most))
        return file.read(most)


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
