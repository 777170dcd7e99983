"""Trials of Harbor: what their folders say, and real ones where Harbor and Docker Compose v2 are there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine import engine_answers
from tests.suites.terminal_bench.scripted_model import SENTENCE, scripted_model
from trace_bench.resources import data_dir
from trace_bench.suites.terminal_bench.leftovers import project_name, remove_leftovers
from trace_bench.suites.terminal_bench.program import find_harbor
from trace_bench.suites.terminal_bench.results import (
    LONGEST_TEXT,
    LONGEST_TRAJECTORY,
    classified,
    last_steps,
    read_trial,
    refused,
    short,
)
from trace_bench.suites.terminal_bench.started import Harbor, HarborAhead, interpreter_of
from trace_bench.suites.terminal_bench.trial import (
    DatasetTask,
    HarborAgent,
    LocalTask,
    Trial,
    TrialError,
    clean_environment,
    overlay,
    run_trial,
)

TASKS = data_dir("benchmarks") / "terminal_bench"
IMAGE = "trace-bench/terminal:local"
GOOD = SENTENCE + "\n\n{instruction}\n\n{terminal_state}\n"
BAD = "{instruction}\n\n{terminal_state}\n"
KEY = "sk-a-secret-of-the-tests"
TRAJECTORY = {
    "schema_version": "ATIF-v1.8",
    "steps": [
        {"step_id": 1, "source": "user", "message": "Count the lines."},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I count.",
            "tool_calls": [
                {"function_name": "bash_command", "arguments": {"keystrokes": "wc -l *\n", "duration": 1.0}},
                {"function_name": "mark_task_complete", "arguments": {}},
            ],
            "observation": {"results": [{"content": "$ wc -l *\n\n\n\n\n12 total\n\n\n"}]},
        },
    ],
}


def result(rewards: object = None, failure: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A result.json as Harbor 0.24 writes it."""
    info = None
    if failure is not None:
        info = {"exception_type": failure[0], "exception_message": failure[1], "exception_traceback": "Traceback ..."}
    return {
        "task_name": "trace-bench/count-log-lines",
        "trial_name": "count_log_lines__6Dfcab3",
        "task_checksum": "3e929bbc",
        "agent_result": {"n_input_tokens": 300, "n_output_tokens": 30, "cost_usd": 0.25},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": info,
        "started_at": "2026-11-25T10:27:14.000000Z",
        "finished_at": "2026-11-25T10:27:21.500000Z",
        "environment_setup": {
            "started_at": "2026-11-25T10:27:14.250000Z",
            "finished_at": "2026-11-25T10:27:16.250000Z",
        },
        "agent_setup": {"started_at": "2026-11-25T10:27:16.250000Z", "finished_at": None},
        "agent_execution": None,
        "verifier": None,
        **more,
    }


def job_of(
    folder: Path, content: object, *, tests: str = "PASSED\n", trajectory: object = None, name: str = "a__6Dfcab3"
) -> Path:
    """The folder of a job with one trial, in Harbor's layout."""
    trial = folder / "job" / name
    (trial / "verifier").mkdir(parents=True)
    (trial / "agent").mkdir()
    (trial / "lock.json").write_text("{}")
    (trial / "verifier" / "test-stdout.txt").write_text(tests)
    if content is not None:
        (trial / "result.json").write_text(content if isinstance(content, str) else json.dumps(content))
    if trajectory is not None:
        (trial / "agent" / "trajectory.json").write_text(json.dumps(trajectory))
    (folder / "job" / "result.json").write_text(json.dumps({"stats": {"mean": 0.0}}))
    return folder / "job"


def refusal(folder: Path, content: object, **more: Any) -> TrialError:
    with pytest.raises(TrialError) as raised:
        read_trial(job_of(folder, content, **more))
    return raised.value


def test_a_trial_that_was_judged(tmp_path: Path) -> None:
    found = read_trial(job_of(tmp_path, result({"reward": 1.0, "speed": 2}), trajectory=TRAJECTORY))
    assert found is not None
    assert found.rewards == {"reward": 1.0, "speed": 2.0}
    assert found.tests == "PASSED\n"
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (300, 30, 0.25)
    assert found.seconds == {"environment_setup": 2.0, "trial": 7.5}
    assert found.trajectory == TRAJECTORY
    assert found.notes == []
    assert [step["source"] for step in found.steps] == ["user", "agent"]
    assert found.steps[1]["calls"] == ["wc -l *", "mark_task_complete {}"]
    assert found.steps[1]["observation"] == "$ wc -l *\n\n12 total"


def test_the_mean_of_the_job_is_no_reward(tmp_path: Path) -> None:
    job = job_of(tmp_path, None)
    assert read_trial(job) is None
    assert read_trial(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    "rewards", [None, {}, {"reward": None}, {"reward": "1"}, {"reward": True}, {"a": 1, "b": None}]
)
def test_a_reward_that_is_no_number_is_no_reward(tmp_path: Path, rewards: object) -> None:
    assert refusal(tmp_path, result(rewards)).kind == "task"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"exception_info": null, "verifier_result": {"rewards": {"r": NaN}}}']
)
def test_a_result_that_cannot_be_read_is_no_reward(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text).kind in ("infrastructure", "task")


FAILURES = [
    ("RewardFileNotFoundError", "No reward file found at /logs", "task", "wrote no reward"),
    ("RewardFileEmptyError", "", "task", "empty reward"),
    ("VerifierOutputParseError", "", "task", "not a finite number"),
    ("VerifierTimeoutError", "", "timeout", "tests did not finish"),
    ("AgentTimeoutError", "", "timeout", "gave no reward"),
    ("AgentSetupTimeoutError", "", "timeout", "not set up"),
    ("EnvironmentStartTimeoutError", "", "timeout", "did not start"),
    ("InternalServerError", "litellm.InternalServerError: Connection error.", "provider", "endpoint"),
    ("AuthenticationError", "litellm.AuthenticationError: 401", "provider", "the key"),
    ("RateLimitError", "429", "provider", "endpoint"),
    ("RuntimeError", "Failed to start tmux session. Error: None", "task", "put tmux into the image"),
    ("RuntimeError", "Cannot connect to the Docker daemon at unix:///x.", "infrastructure", "no Docker engine"),
    ("RuntimeError", "unknown flag: --project-name", "infrastructure", "Compose v2"),
    ("FileNotFoundError", "No test script found in: /x", "task", "is missing"),
    ("ValueError", "network_mode='no-network' is not supported", "task", "network_mode to public"),
    ("CancelledError", "", "infrastructure", "interrupted"),
    ("KeyError", "'x'", "infrastructure", "in the phase agent_setup (KeyError"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "kind", "part"), FAILURES)
def test_a_failure_is_never_a_reward(tmp_path: Path, name: str, said: str, kind: str, part: str) -> None:
    rewards = {"reward": 0.0} if name != "AgentTimeoutError" else None
    error = refusal(tmp_path, result(rewards, (name, said)))
    assert error.kind == kind
    assert part in error.message
    assert "\n" not in error.message


COMPOSE = (
    "Docker compose command failed for environment a. "
    "Command: docker compose --project-name a__env -f /x/build.yaml {}. "
    "Return code: 17. Stdout: {}. Stderr: None. "
)


@pytest.mark.parametrize(
    ("action", "said", "kind", "part"),
    [
        (
            "build",
            "#4 CACHED\n#5 ERROR: exit code: 1\nfailed to solve: exit code: 1",
            "task",
            "does not build (#5 ERROR",
        ),
        ("build", "#3 ERROR: failed to do request: Head https://x/v2/y/manifests/1: z", "infrastructure", "pulled"),
        ("up --detach --wait", "Error response from daemon: Get x", "infrastructure", "pulled"),
        ("up --detach --wait", "write: no space left on device", "infrastructure", "disk"),
        ("up --detach --wait", "container main exited (1)", "infrastructure", "docker compose up failed (container"),
    ],
)
def test_what_compose_says(action: str, said: str, kind: str, part: str) -> None:
    failure = {"exception_type": "RuntimeError", "exception_message": COMPOSE.format(action, said)}
    error = classified(failure, {})
    assert error.kind == kind
    assert part in error.message
    assert "Stderr" not in error.message
    assert "project-name" not in error.message


def test_an_agent_that_runs_out_of_time_is_judged(tmp_path: Path) -> None:
    job = job_of(tmp_path, result({"reward": 0.5}, ("AgentTimeoutError", "")), trajectory=TRAJECTORY)
    found = read_trial(job, has_model=True)
    assert found is not None
    assert found.rewards == {"reward": 0.5}
    assert "ran out of time" in found.notes[0]


def test_a_model_that_never_answers_is_no_reward(tmp_path: Path) -> None:
    """The agent ran out of time because of the provider."""
    asked = {**TRAJECTORY, "steps": TRAJECTORY["steps"][:1]}
    job = job_of(tmp_path, result({"reward": 0.0}, ("AgentTimeoutError", "")), trajectory=asked)
    with pytest.raises(TrialError, match="gave no answer") as raised:
        read_trial(job, has_model=True)
    assert raised.value.kind == "provider"


def test_two_files_with_rewards_are_noted(tmp_path: Path) -> None:
    """The container of the agent can write to the folder of the verifier, and Harbor prefers reward.json."""
    job = job_of(tmp_path, result({"reward": 1.0}))
    for name in ("reward.txt", "reward.json"):
        (job / "a__6Dfcab3" / "verifier" / name).write_text("1")
    found = read_trial(job)
    assert found is not None
    assert "two files with rewards" in found.notes[0]


def test_two_trials_are_no_result(tmp_path: Path) -> None:
    job_of(tmp_path, result({"reward": 1.0}))
    assert refusal(tmp_path, result({"reward": 1.0}), name="b__6Dfcab3").kind == "task"


def test_a_trajectory_that_is_no_atif_is_left_out(tmp_path: Path) -> None:
    found = read_trial(job_of(tmp_path, result({"reward": 1.0}), trajectory={"schema_version": "2", "steps": [{}]}))
    assert found is not None
    assert found.trajectory is None
    assert found.steps == []


def test_a_large_trajectory_is_left_out_and_its_steps_are_kept(tmp_path: Path) -> None:
    large = {**TRAJECTORY, "notes": "x" * LONGEST_TRAJECTORY}
    found = read_trial(job_of(tmp_path, result({"reward": 1.0}), trajectory=large))
    assert found is not None
    assert found.trajectory is None
    assert len(found.steps) == 2
    assert "bytes and is left out" in found.notes[0]


def test_links_of_a_container_are_not_followed(tmp_path: Path) -> None:
    """A task's container writes to the folders of agent and verifier."""
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(TRAJECTORY))
    job = job_of(tmp_path, result({"reward": 1.0}))
    for path in (job / "a__6Dfcab3/verifier/test-stdout.txt", job / "a__6Dfcab3/agent/trajectory.json"):
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
    found = read_trial(job)
    assert found is not None
    assert found.tests == ""
    assert found.trajectory is None
    (job / "a__6Dfcab3/verifier/test-stdout.txt").unlink()
    os.mkfifo(job / "a__6Dfcab3/verifier/test-stdout.txt")
    again = read_trial(job)
    assert again is not None
    assert again.tests == ""


def test_texts_are_bounded(tmp_path: Path) -> None:
    long = {"steps": [{"step_id": n, "source": "agent", "message": "m" * 9000} for n in range(1, 50)]}
    steps = last_steps(long, 3)
    assert [step["step"] for step in steps] == [47, 48, 49]
    assert len(steps[0]["message"]) <= LONGEST_TEXT + 2
    found = read_trial(job_of(tmp_path, result({"reward": 1.0}), tests="t" * 100_000 + "end"))
    assert found is not None
    assert len(found.tests) == 8000
    assert found.tests.endswith("end")
    assert len(short("é" * 5000)) <= 602


@pytest.mark.parametrize("steps", [None, {}, [1, None, {"tool_calls": 3, "observation": [], "message": {"a": 1}}], "x"])
def test_steps_of_any_form_are_read(steps: object) -> None:
    assert all(step["message"] == "" for step in last_steps({"steps": steps}))


REFUSALS = [
    (-9, "", "infrastructure", "killed by signal 9"),
    (1, "Docker daemon is not running. Please start Docker and try again.", "infrastructure", "no Docker engine"),
    (1, "│ 1 │ x │\nValueError: Either datasets or tasks must be provided.\n", "task", "Harbor cannot read the folder"),
    (1, "ValueError: No tasks matched the filter(s) ['a'].\n", "task", "no such task (ValueError: No tasks matched"),
    (1, "ValueError: Error getting dataset terminal-bench@2.0\n", "infrastructure", "cannot be reached"),
    (1, "ValueError: Version 2.0 of dataset mini not found\n", "task", "no such data set"),
    (1, "ValueError: network_mode='no-network' is not supported by x\nExceptionGroup: y\n", "task", "set it to public"),
    (2, "", "infrastructure", "exit code 2 and no result (it printed nothing)"),
]


@pytest.mark.parametrize(("code", "output", "kind", "part"), REFUSALS)
def test_a_program_without_a_result(code: int, output: str, kind: str, part: str) -> None:
    error = refused(code, output)
    assert error.kind == kind
    assert part in error.message


def test_harbor_is_found(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "TRACE_BENCH_HOME": str(tmp_path / "home")}
    assert find_harbor(environ) is None
    assert find_harbor({**environ, "HARBOR_BIN": str(tmp_path / "no")}) is None
    program(tmp_path / "harbor", "true")
    assert find_harbor(environ) == tmp_path / "harbor"
    program(tmp_path / "other", "true")
    assert find_harbor({**environ, "HARBOR_BIN": str(tmp_path / "other")}) == tmp_path / "other"


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_environment_of_harbor_is_clean(tmp_path: Path) -> None:
    (tmp_path / "home" / ".docker").mkdir(parents=True)
    environ = {"PATH": "/bin", "HOME": str(tmp_path / "home"), "SECRET": "s", "DOCKER_HOST": "unix:///x"}
    found = clean_environment(environ, tmp_path, {"OPENAI_API_KEY": "k"})
    assert "SECRET" not in found
    assert found["DOCKER_CONFIG"] == str(tmp_path / "home" / ".docker")
    assert found["DOCKER_HOST"] == "unix:///x"
    assert found["OPENAI_API_KEY"] == "k"
    assert found["HARBOR_TELEMETRY"] == "0"


def test_the_overlay() -> None:
    found = overlay({"a": "$b"}, network=False)
    assert found == {
        "services": {
            "main": {
                "init": True,
                "hostname": "trial",
                "stop_grace_period": "1s",
                "labels": {"a": "$$b"},
                "network_mode": "none",
            }
        },
        "networks": {"default": {"labels": {"a": "$$b"}}},
    }
    assert "network_mode" not in overlay({}, network=True)["services"]["main"]  # type: ignore[index]


def test_names_of_projects_are_those_of_harbor() -> None:
    assert project_name("A b.c__x") == "a-b-c__x"
    assert project_name("_a") == "0_a"


# A stand-in for Harbor, and an engine that is never asked: what run_trial makes of any program.

STAND_IN = """
while [ $# -gt 0 ]; do case "$1" in -o) jobs="$2" ;; esac; shift; done
mkdir -p "$jobs/job/a__b/verifier" "$jobs/job/a__b/agent"; echo '{}' >"$jobs/job/a__b/lock.json"
"""


def stand_in(folder: Path, script: str, limit: float = 20.0, **more: Any) -> Trial:
    """Run a trial with a program in place of Harbor."""
    task = folder / "task"
    if not task.exists():
        shutil.copytree(TASKS / "count_log_lines", task)
    harbor = Harbor([str(program(folder / "stand-in", STAND_IN + script))])
    places = {"environ": {"PATH": os.environ["PATH"]}, "folder": folder, "environment": "other"}
    return run_trial(harbor, LocalTask(task), HarborAgent(), limit=limit, **{**places, **more})


def test_a_program_that_writes_a_result(tmp_path: Path) -> None:
    said = json.dumps(result({"reward": 0.75}))
    found = stand_in(tmp_path, f"echo '{said}' >\"$jobs/job/a__b/result.json\"; exit 3")
    assert found.rewards == {"reward": 0.75}
    assert found.seconds["program"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stand-in", "task"]


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    gone = Harbor([str(tmp_path / "gone")])
    with pytest.raises(TrialError, match="run trace-bench harbor install") as raised:
        run_trial(gone, LocalTask(TASKS / "count_log_lines"), HarborAgent(), limit=5, environment="other")
    assert raised.value.kind == "infrastructure"


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="killed by signal 9") as raised:
        stand_in(tmp_path, "kill -9 $$")
    assert raised.value.kind == "infrastructure"


def test_a_program_that_takes_too_long(tmp_path: Path) -> None:
    """Its children are ended with it, though they ignore all that can be ignored."""
    child = "trap '' INT TERM; echo $BASHPID >\"$jobs/../../child\"; exec sleep 1000"
    with pytest.raises(TrialError) as raised:
        stand_in(tmp_path, f'({child}) & until [ -s "$jobs/../../child" ]; do sleep 0.01; done; exit 0')
    assert raised.value.kind == "infrastructure"
    assert_ended(int((tmp_path / "child").read_text()))
    with pytest.raises(TrialError, match=r"did not end within 0\.5 s") as raised:
        stand_in(tmp_path, "trap 'exit 0' INT; sleep 1000 & wait", limit=0.5)
    assert raised.value.kind == "timeout"


def assert_ended(pid: int) -> None:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} runs on")


def test_a_trial_that_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(TrialError, match="was stopped") as raised:
        stand_in(tmp_path, "trap 'exit 0' INT; sleep 1000 & wait", stop=stop)
    assert raised.value.kind == "cancelled"
    assert time.monotonic() - begun < 10


def test_a_program_that_prints_without_end(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="exit code 4") as raised:
        stand_in(tmp_path, "head -c 20000000 /dev/zero | tr '\\0' 'x'; exit 4")
    assert len(raised.value.message) < 1000


def test_messages_name_no_folder_and_no_secret(tmp_path: Path) -> None:
    script = 'echo "$HOME $OPENAI_API_KEY $jobs $0 $PYTHONPATH" "$@"; exit 1'
    with pytest.raises(TrialError) as raised:
        stand_in(tmp_path, script, variables={"OPENAI_API_KEY": KEY})
    assert KEY not in raised.value.message
    assert str(tmp_path) not in raised.value.message


def test_a_folder_that_is_no_task(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    with pytest.raises(TrialError, match=r"it has no task\.toml") as raised:
        stand_in(tmp_path, "exit 0")
    assert raised.value.kind == "task"
    (tmp_path / "task" / "task.toml").write_text("[")
    with pytest.raises(TrialError, match="cannot be read"):
        stand_in(tmp_path, "exit 0")


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    harbor = Harbor(["/bin/false"])
    local = LocalTask(TASKS / "count_log_lines")
    with pytest.raises(ValueError, match="needs a model"):
        run_trial(harbor, local, HarborAgent(template=GOOD), limit=1)
    with pytest.raises(ValueError, match=r"the field \{json\}"):
        run_trial(harbor, local, HarborAgent(template=GOOD + "{json}", model="m"), limit=1)
    with pytest.raises(ValueError, match="not a valid name"):
        run_trial(harbor, local, HarborAgent(arguments={"a=b": 1}), limit=1)
    with pytest.raises(ValueError, match="not the name of one task"):
        run_trial(harbor, DatasetTask("a@1", "b*"), HarborAgent(), limit=1)


def docker_command(folder: Path, script: str) -> Mapping[str, str]:
    """An environment with a docker command of the test."""
    (folder / "bin").mkdir()
    program(folder / "bin" / "docker", script)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def test_no_engine(tmp_path: Path) -> None:
    environ = docker_command(tmp_path, "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(TrialError, match="no Docker engine answers") as raised:
        stand_in(tmp_path, "exit 0", environ=environ, environment="docker")
    assert raised.value.kind == "infrastructure"


def test_no_compose(tmp_path: Path) -> None:
    environ = docker_command(tmp_path, '[ "$1" = version ] || { echo "docker: no compose" >&2; exit 1; }')
    with pytest.raises(TrialError, match="no Compose v2") as raised:
        stand_in(tmp_path, "exit 0", environ=environ, environment="docker")
    assert raised.value.kind == "infrastructure"


def test_no_docker_command(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="no docker command"):
        stand_in(tmp_path, "exit 0", environ={"PATH": str(tmp_path)}, environment="docker")


# Real trials. HARBOR_BIN names the program, and DOCKER_CONFIG a folder that scripts/compose-v2 has filled.

real = [pytest.mark.docker, pytest.mark.slow]


def hindrance() -> str | None:
    if not engine_answers():
        return "no engine"
    if find_harbor(os.environ) is None:
        return "no program 'harbor' (HARBOR_BIN)"
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        return "no Docker Compose v2 (scripts/compose-v2, DOCKER_CONFIG)"
    return None


@pytest.fixture(scope="module")
def harbor() -> Harbor:
    if (why := hindrance()) is not None:
        pytest.skip(why)
    if subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, check=False).returncode != 0:
        made = subprocess.run([sys.executable, "scripts/terminal-bench-image"], cwd=TASKS.parents[2], check=False)
        if made.returncode != 0:
            pytest.skip(f"no image {IMAGE} (scripts/terminal-bench-image)")
    return Harbor([str(find_harbor(os.environ))])


LABELS = {"trace-bench-test.trial": f"{os.getpid()}"}


def left() -> dict[str, list[str]]:
    """What is on the engine of projects that carry the labels of these tests, or are named like their tasks."""
    label = [word for key, value in LABELS.items() for word in ("--filter", f"label={key}={value}")]
    kinds = {"containers": ["ps", "--all"], "networks": ["network", "ls"], "volumes": ["volume", "ls"]}
    found = {}
    for kind, command in kinds.items():
        done = subprocess.run(["docker", *command, "--quiet", *label], capture_output=True, text=True, check=True)
        found[kind] = done.stdout.split()
    images = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}"], capture_output=True, text=True, check=True
    )
    return found | {"images": [name for name in images.stdout.split() if name.endswith("__env-main")]}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    try:
        assert not any(left().values()), left()
    finally:
        remove_leftovers([f"{key}={value}" for key, value in LABELS.items()], os.environ, patience=0.5)


def trial(harbor: Harbor, task: Path, agent: HarborAgent, limit: float = 240.0, **more: Any) -> Trial:
    return run_trial(harbor, LocalTask(task), agent, limit=limit, labels=LABELS, **more)


def copied(folder: Path, edit: Callable[[Path], object] = lambda task: None) -> Path:
    """A copy of a task of ours, changed by `edit`."""
    task = folder / "changed"
    shutil.copytree(TASKS / "count_log_lines", task)
    edit(task)
    return task


def scripted(address: str, template: str = GOOD) -> HarborAgent:
    arguments = {
        "api_base": address,
        "max_turns": 6,
        "model_info": {"max_input_tokens": 32000, "max_output_tokens": 4096},
    }
    return HarborAgent(model="openai/scripted", template=template, arguments=arguments)


def failing(harbor: Harbor, task: Path, agent: HarborAgent, **more: Any) -> TrialError:
    with pytest.raises(TrialError) as raised:
        trial(harbor, task, agent, **more)
    for private in (str(task), os.environ.get("HARBOR_BIN", "/nowhere"), KEY, "trace-bench-trial-"):
        assert private not in raised.value.message
    return raised.value


def writing(name: str, text: str) -> Callable[[Path], object]:
    return lambda task: (task / name).write_text(text)


def limiting(table: str, seconds: float) -> Callable[[Path], object]:
    """Sets timeout_sec of a table of task.toml."""

    def edit(task: Path) -> None:
        before, name, after = (task / "task.toml").read_text().partition(f"[{table}]\n")
        (task / "task.toml").write_text(before + name + f"timeout_sec = {seconds}\n" + after.partition("\n")[2])

    return edit


def mark_all(*marks: pytest.MarkDecorator) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        for mark in marks:
            test = mark(test)
        return test

    return decorate


in_earnest = mark_all(*real, pytest.mark.usefixtures("nothing_left"))


@in_earnest
@pytest.mark.parametrize("task", ["count_log_lines", "repair_script", "sort_by_date"])
def test_the_solution_of_a_task_solves_it_and_nothing_does_not(harbor: Harbor, task: str) -> None:
    solved = trial(harbor, TASKS / task, HarborAgent("oracle"))
    assert solved.rewards == {"reward": 1.0}
    assert set(solved.seconds) == {"environment_setup", "agent_setup", "agent", "verifier", "trial", "program"}
    assert solved.notes == []
    assert trial(harbor, TASKS / task, HarborAgent("nop")).rewards == {"reward": 0.0}


@in_earnest
def test_a_good_template_solves_and_a_bad_one_does_not(harbor: Harbor) -> None:
    solution = (TASKS / "count_log_lines" / "solution" / "solve.sh").read_text()
    with scripted_model([f"cat >/tmp/solve.sh <<'END'\n{solution}END\n", "bash /tmp/solve.sh\n"]) as model:
        run = {"variables": {"OPENAI_API_KEY": KEY}}
        good = trial(harbor, TASKS / "count_log_lines", scripted(model.address), **run)
        bad = trial(harbor, TASKS / "count_log_lines", scripted(model.address, BAD), **run)
    assert good.rewards == {"reward": 1.0}
    assert bad.rewards == {"reward": 0.0}
    assert model.keys == {f"Bearer {KEY}"}
    assert (good.input_tokens, good.output_tokens) == (300, 30)
    assert good.steps[0]["message"].startswith(SENTENCE)
    assert any("solve.sh" in call for step in good.steps for call in step["calls"])
    assert good.trajectory is not None
    assert KEY not in json.dumps(good.trajectory)
    beyond = good.seconds["program"] - good.seconds["agent"]
    print(f"seconds beyond the agent: {beyond:.1f} ({good.seconds})")


@in_earnest
def test_a_trial_has_no_network_unless_it_asks_for_one(harbor: Harbor, tmp_path: Path) -> None:
    count = "#!/bin/bash\nls /sys/class/net | grep -vc lo | tee /logs/verifier/reward.txt\n"
    task = copied(tmp_path, writing("tests/test.sh", count))
    assert trial(harbor, task, HarborAgent("nop")).rewards == {"reward": 0.0}
    assert trial(harbor, task, HarborAgent("nop"), network=True).rewards == {"reward": 1.0}


@in_earnest
def test_a_task_of_a_data_set(harbor: Harbor, tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    tasks = [{"name": path.name, "path": str(path)} for path in sorted(TASKS.iterdir())]
    registry.write_text(json.dumps([{"name": "mini", "version": "1.0", "description": "", "tasks": tasks}]))

    def run(dataset: str, name: str, where: Path | None = registry) -> Trial:
        found = DatasetTask(dataset, name, where)
        return run_trial(harbor, found, HarborAgent("oracle"), limit=240, labels=LABELS)

    assert run("mini@1.0", "count_log_lines").rewards == {"reward": 1.0}
    for dataset, name, kind, part in (
        ("mini@1.0", "nothing", "task", "no such task"),
        ("mini@2.0", "count_log_lines", "task", "no such data set"),
    ):
        with pytest.raises(TrialError, match=part) as raised:
            run(dataset, name)
        assert raised.value.kind == kind
        assert str(tmp_path) not in raised.value.message


BUILD_FAILS = f"FROM {IMAGE}\nRUN echo no compiler && false\n"
NO_TMUX = f"FROM {IMAGE}\nRUN rm -f /usr/bin/tmux\n"
SLEEPING = "#!/bin/bash\nsleep 100\n"
BROKEN_TASKS = {
    "image that does not build": (writing("environment/Dockerfile", BUILD_FAILS), "task", "echo no compiler"),
    "no reward": (writing("tests/test.sh", "#!/bin/bash\nexit 0\n"), "task", "wrote no reward"),
    "reward that is no number": (
        writing("tests/test.sh", "#!/bin/bash\necho much >/logs/verifier/reward.txt\n"), "task", "not a finite number",
    ),
    "no tests": (lambda task: (task / "tests" / "test.sh").unlink(), "task", "Harbor cannot read the folder"),
    "tests that take too long": (
        lambda task: (writing("tests/test.sh", SLEEPING)(task), limiting("verifier", 2.0)(task)),
        "timeout", "the tests did not finish",
    ),
}  # fmt: skip


@in_earnest
@pytest.mark.parametrize("broken", BROKEN_TASKS)
def test_a_broken_task(harbor: Harbor, tmp_path: Path, broken: str) -> None:
    edit, kind, part = BROKEN_TASKS[broken]
    error = failing(harbor, copied(tmp_path, edit), HarborAgent("nop"))
    assert error.kind == kind
    assert part in error.message


@in_earnest
def test_an_agent_without_time(harbor: Harbor, tmp_path: Path) -> None:
    task = copied(tmp_path, writing("solution/solve.sh", SLEEPING))
    limiting("agent", 2.0)(task)
    found = trial(harbor, task, HarborAgent("oracle"))
    assert found.rewards == {"reward": 0.0}
    assert "ran out of time" in found.notes[0]
    with scripted_model([], delay=30) as model:
        error = failing(harbor, task, scripted(model.address), variables={"OPENAI_API_KEY": KEY})
    assert error.kind == "provider"


@in_earnest
def test_a_model_that_refuses_or_is_dead(harbor: Harbor) -> None:
    task = TASKS / "count_log_lines"
    with scripted_model([], status=401) as model:
        error = failing(harbor, task, scripted(model.address), variables={"OPENAI_API_KEY": KEY})
    assert error.kind == "provider"
    assert "AuthenticationError" in error.message
    error = failing(harbor, task, scripted(model.address), variables={"OPENAI_API_KEY": KEY})  # it was shut down
    assert error.kind == "provider"


@in_earnest
def test_an_image_without_tmux(harbor: Harbor, tmp_path: Path) -> None:
    task = copied(tmp_path, writing("environment/Dockerfile", NO_TMUX))
    with scripted_model([]) as model:
        error = failing(harbor, task, scripted(model.address), variables={"OPENAI_API_KEY": KEY})
    assert error.kind == "task"
    assert "tmux" in error.message


@in_earnest
def test_a_trial_that_is_ended_early(harbor: Harbor, tmp_path: Path) -> None:
    """By its limit and by its caller, once its container runs."""
    task = copied(tmp_path, writing("solution/solve.sh", SLEEPING))
    assert failing(harbor, task, HarborAgent("oracle"), limit=12.0).kind == "timeout"
    assert not any(left().values())
    stop = threading.Event()
    watching = threading.Thread(target=lambda: (waited_for_container(), stop.set()))
    watching.start()
    assert failing(harbor, task, HarborAgent("oracle"), stop=stop).kind == "cancelled"
    watching.join()


def waited_for_container() -> None:
    for _ in range(600):
        if left()["containers"]:
            return
        time.sleep(0.1)


@in_earnest
def test_a_killed_harbor_leaves_nothing(harbor: Harbor, tmp_path: Path) -> None:
    task = copied(tmp_path, writing("solution/solve.sh", SLEEPING))
    killed: list[int] = []

    def kill() -> None:
        waited_for_container()
        own = str(tmp_path.resolve())
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            except OSError:
                continue
            if "run" in words and any(own in word for word in words) and "--job-name" in words:
                os.kill(int(entry.name), signal.SIGKILL)
                killed.append(int(entry.name))

    killing = threading.Thread(target=kill)
    killing.start()
    error = failing(harbor, task, HarborAgent("oracle"), network=True, folder=tmp_path)
    killing.join()
    assert killed
    assert error.kind == "infrastructure"
    assert "signal 9" in error.message
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]


@in_earnest
def test_five_trials_leave_nothing(harbor: Harbor) -> None:
    for number in range(5):
        found = trial(harbor, TASKS / "sort_by_date", HarborAgent("nop"), network=bool(number % 2))
        assert found.rewards == {"reward": 0.0}
        print(f"seconds beyond the agent: {found.seconds['program'] - found.seconds['agent']:.1f} ({found.seconds})")
    assert not any(left().values())


def test_compose_v2_without_an_argument() -> None:
    done = subprocess.run([TASKS.parents[1] / "scripts" / "compose-v2"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: scripts/compose-v2 FOLDER" in done.stderr


# Started ahead.


def test_the_interpreter_of_a_script_is_its_first_line(tmp_path: Path) -> None:
    script = program(tmp_path / "script", "x")
    script.write_text(f"#!{sys.executable}\n")
    assert interpreter_of(script) == Path(sys.executable)
    script.write_text("#!/bin/sh\n")
    assert interpreter_of(script) is None and interpreter_of(tmp_path / "none") is None


def test_a_process_that_waits_is_used_once_and_ends_when_nobody_asks(tmp_path: Path) -> None:
    script = tmp_path / "harbor"
    script.write_text(f"#!{sys.executable}\n")
    modules = tmp_path / "modules"
    (modules / "harbor" / "cli").mkdir(parents=True)
    (modules / "litellm.py").write_text("")
    (modules / "harbor" / "cli" / "main.py").write_text(
        "import os, sys\ndef app():\n    print(os.getpid(), os.environ['KEY'], *sys.argv[1:])\n"
    )
    ahead = HarborAhead([str(script)], lambda place: {"PYTHONPATH": str(modules)})
    ahead.prepare()
    ((place, waiting),) = ahead._waiting
    with ahead.opened(None) as started:
        assert started.place == place and ahead._waiting[0][1] is not waiting
        process = started.begin(["run", "a"], {"KEY": "k"})
        assert process is waiting and process.stdout is not None
        assert process.stdout.read().decode().split() == [str(process.pid), "k", "run", "a"]
        assert process.wait(30) == 0
    assert not place.exists()
    ((other, unused),) = ahead._waiting
    assert unused.stdin is not None
    unused.stdin.close()  # as when the controller is killed
    assert unused.wait(30) == 0 and not other.exists()
    ahead.close()
    with ahead.opened(tmp_path) as cold:
        assert cold.place.parent == tmp_path
    ahead.close()
