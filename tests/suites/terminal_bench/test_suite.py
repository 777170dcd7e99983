"""The suite: what its tasks are, what a sandbox gets of them, and what the guide makes of a trial."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.suites.conftest import build_folder
from trace_bench.errors import ConfigError
from trace_bench.suites.registry import discover, resolve
from trace_bench.suites.service import ModelAddress, ServiceCall, ServiceError
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.task_files import content_hash, pack_task
from trace_bench.suites.terminal_bench.described import COMMON, DATASET
from trace_bench.suites.terminal_bench.host import _arguments, _task, _variables
from trace_bench.suites.terminal_bench.problem import LONGEST_FEEDBACK, TrialGuide, feedback, reward_of
from trace_bench.suites.terminal_bench.template import DEFAULT, TEMPLATES, check_template
from trace_bench.suites.terminal_bench.trial import DatasetTask, LocalTask
from trace_bench.worker.problem import CandidateError

OURS = ("count_log_lines", "repair_script", "sort_by_date")
OF_THE_DATA_SET = {"regex-log", "log-summary-date-ranges", "multi-source-data-merger", "financial-document-processor"}
STEP = {"step": 1, "source": "agent", "message": "I look.", "calls": ["ls\n"], "observation": "a\nb"}


def trial(**over: Any) -> dict[str, Any]:
    return {
        "rewards": {"reward": 1.0},
        "tests": "PASSED",
        "steps": [STEP],
        "notes": [],
        "seconds": {"agent": 1.5},
        **over,
    }


class Desk:
    """Answers with trials."""

    def __init__(self, *trials: Mapping[str, Any]) -> None:
        self.trials = list(trials)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def ask(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((name, request))
        return dict(self.trials[len(self.asked) - 1])


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_tasks_have_short_names_and_any_other_name_is_one_of_the_data_set() -> None:
    names = {entry.id.rpartition("/")[2].rpartition(":")[2] for entry in discover(["terminal_bench"])}
    assert names == {*OURS, *OF_THE_DATA_SET}
    for name in OURS:
        assert resolve(f"terminal_bench:{name}").folder.name == name
    other = resolve("terminal_bench:hello-world")
    assert other.id == "terminal_bench:hello-world" and other.folder.name == ".other"
    spec = load_task_spec(other.folder)
    assert spec.eval_kwargs["harbor_dataset"].default == DATASET and spec.harbor is not None
    with pytest.raises(ConfigError, match="there is no task"):
        resolve("terminal_bench:../evil")


def test_a_folder_in_harbors_format_is_a_task_under_any_root(tmp_path: Path) -> None:
    folder = tmp_path / "group" / "mine"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text('schema_version = "1.1"\n[verifier]\ntimeout_sec = 5\n')
    (folder / "instruction.md").write_text("Do it.\n")
    (entry,) = (each for each in discover(None, [tmp_path]) if each.folder == folder)
    assert entry.id == "terminal_bench:group/mine"
    spec = load_task_spec(folder)
    assert (spec.title, spec.statement, spec.interaction) == ("Mine", "Do it.", "trial")
    assert spec.eval_kwargs["harbor_dataset"].default is None


def test_solution_and_tests_stay_on_the_host_and_count_for_the_content() -> None:
    folder = resolve("terminal_bench:count_log_lines").folder
    with tarfile.open(fileobj=io.BytesIO(pack_task(folder))) as tar:
        assert sorted(tar.getnames()) == ["instruction.md", "task.toml"]
    assert content_hash(folder) != content_hash(resolve("terminal_bench:sort_by_date").folder)


def test_a_change_of_the_tests_changes_the_content(tmp_path: Path) -> None:
    for name, text in (("task.toml", ""), ("instruction.md", "Do it."), ("tests/test.sh", "exit 0\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = content_hash(tmp_path)
    (tmp_path / "tests" / "test.sh").write_text("exit 1\n")
    assert content_hash(tmp_path) != before


# -- the problem ---------------------------------------------------------------------------------------------------


def test_the_prompt_is_a_template_for_terminus_and_a_prefix_for_others() -> None:
    folder = resolve("terminal_bench:count_log_lines").folder
    problem = build_folder(folder, None, "terminal_bench", seed=1, test_seed=1, services=Desk())  # type: ignore[arg-type]
    (parameter,) = problem.parameters
    assert parameter.name == "prompt_template" and parameter.value == DEFAULT and "log files" in problem.objective
    for template in (DEFAULT, *TEMPLATES):
        check_template(template)
    other = build_folder(
        folder,
        None,
        "terminal_bench",
        seed=1,
        test_seed=1,
        services=Desk(),
        harbor_agent="codex",  # type: ignore[arg-type]
    )
    assert other.parameters[0].name == "instruction_prefix" and other.parameters[0].value == ""


@pytest.mark.parametrize(
    "prompt", ["no fields", "{instruction}", "{instruction} {terminal_state} {x}", "{", 7, "x" * 60_000]
)
def test_a_prompt_that_cannot_be_filled_costs_no_trial(prompt: Any) -> None:
    desk = Desk()
    with pytest.raises(CandidateError):
        TrialGuide(desk, 1, templated=True)(None, prompt, "train")
    assert desk.asked == []


def test_the_mean_of_attempts_counts_and_the_worst_is_told_of() -> None:
    desk = Desk(trial(), trial(rewards={"reward": 0.0}, tests="FAILED: no report"))
    score, told = TrialGuide(desk, 2, templated=True)(None, DEFAULT, "train")
    assert score == 0.5 and told.startswith("Rewards 1, 0.") and "FAILED: no report" in told
    assert desk.asked == [("harbor", {"prompt": DEFAULT})] * 2


def test_feedback_says_what_matters_first_and_nothing_that_differs_between_equal_trials() -> None:
    told = feedback(trial(notes=["The agent ran out of time."]), [1.0])
    lines = told.splitlines()
    assert lines[0] == "Reward 1." and lines.index("The agent ran out of time.") < lines.index("PASSED")
    assert "  > ls\n" in told and "  b" in lines and "1.5" not in told
    long = feedback(trial(steps=[{**STEP, "observation": "x" * 20_000}]), [1.0])
    assert len(long) == LONGEST_FEEDBACK and long.startswith("Reward 1.")


def test_of_several_rewards_the_one_of_that_name_counts_else_their_mean() -> None:
    assert reward_of({"reward": 0.25, "speed": 1.0}) == 0.25 and reward_of({"a": 0.0, "b": 1.0}) == 0.5


# -- the host ------------------------------------------------------------------------------------------------------


def call(folder: Path, task_id: str = "terminal_bench:regex-log", **given: Any) -> ServiceCall:
    defaults = {name: spec.get("default") for name, spec in COMMON["eval_kwargs"].items()}
    return ServiceCall(
        request={"prompt": DEFAULT}, task_id=task_id, task_folder=folder, spec={"harbor": {}},
        eval_kwargs={**defaults, **given}, phase="train", labels={}, folder=folder,
        model=ModelAddress("http://127.0.0.1:1/v1", "t", "m"),
    )  # fmt: skip


def test_a_task_is_a_folder_or_one_of_a_data_set(tmp_path: Path) -> None:
    ours = resolve("terminal_bench:count_log_lines").folder
    assert _task(call(ours)) == LocalTask(ours.absolute())
    assert _task(call(tmp_path, harbor_task_path=str(ours))) == LocalTask(ours)
    found = _task(call(tmp_path, harbor_dataset="mini@1.0", harbor_registry_path=str(tmp_path / "r.json")))
    assert found == DatasetTask("mini@1.0", "regex-log", tmp_path / "r.json")
    curated = load_task_spec(resolve("terminal_bench:regex-log").folder)
    assert curated.raw["harbor"]["task"] == "regex-log" and curated.eval_kwargs["harbor_dataset"].default == DATASET
    with pytest.raises(ServiceError, match="names no data set; set harbor_dataset"):
        _task(call(tmp_path))


def test_arguments_are_json_or_texts_and_have_names() -> None:
    assert _arguments(["max_turns=6", "parser_name=json", "flag=true"]) == {
        "max_turns": 6, "parser_name": "json", "flag": True,
    }  # fmt: skip
    with pytest.raises(ServiceError, match="'max_turns' is not NAME=VALUE"):
        _arguments(["max_turns"])


def test_only_variables_that_are_named_reach_harbor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "secret")
    assert _variables(["DAYTONA_API_KEY"]) == {"DAYTONA_API_KEY": "secret"}
    with pytest.raises(ServiceError, match="NO_SUCH_KEY is not set on this host"):
        _variables(["NO_SUCH_KEY"])
