"""`new` and `check-task`: from nothing to a config, a task or a trainer that works."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.cli.conftest import assert_refused, refused
from tests.console import here
from tests.integration.cli import REPOSITORY, cli
from trace_bench.artifacts.outputs import BuildReport, ParameterReport, ProgramReport
from trace_bench.cli import new
from trace_bench.cli.new import INTERACTIONS, new_config, new_task, new_trainer
from trace_bench.cli.problem_checks import misfits
from trace_bench.config import load_config
from trace_bench.errors import ConfigError
from trace_bench.suites.lint import lint
from trace_bench.suites.spec import load_task_spec
from trace_bench.trainers.base import Budget, Rollout, Step
from trace_bench.worker.problem import Parameter, Problem, examples
from trace_bench.worker.search_loop import run_search


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_a_new_folder_lacks_nothing(interaction: str, tmp_path: Path) -> None:
    done = cli("new", "task", "group/even_load", "--root", str(tmp_path), "--interaction", interaction)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 6
    assert f"trace-bench check-task --root {tmp_path} llm4ad:group/even_load" in done.stderr
    folder = tmp_path / "group" / "even_load"
    spec = load_task_spec(folder)
    assert (spec.entry, spec.title, spec.interaction) == ("even_load", "Even load", interaction)
    assert lint(folder, spec) == []
    assert "task_entry" not in "".join(path.read_text() for path in folder.rglob("*.*") if path.is_file())


@pytest.mark.parametrize("name", ["", "a b", "../out", "/abs", "class", "a//b", "1st"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no name for a task: give letters"):
        new_task(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    new_task("mine", tmp_path)
    (tmp_path / "mine" / "task.toml").write_text("precious")
    assert "is there already and not empty" in refused("new", "task", "mine", "--root", str(tmp_path))
    assert (tmp_path / "mine" / "task.toml").read_text() == "precious"


def test_an_interaction_without_a_scaffold_is_refused(tmp_path: Path) -> None:
    said = refused("new", "task", "mine", "--root", str(tmp_path), "--interaction", "agent")
    assert "--interaction agent: there is no scaffold for it; give solve or policy" in said


def report(direction: str, **scores: float | None) -> BuildReport:
    """Programs by role; None is one that fails everywhere."""
    programs = tuple(
        ProgramReport(role=role, name=f"{role}.py", score=score or 0.0, failed=4 if score is None else 0, examples=4,
                      seconds=0.1, feedback="why")
        for role, score in scores.items()
    )  # fmt: skip
    parameter = ParameterReport(name="code", kind="code", trainable=True)
    return BuildReport.model_validate(
        {"direction": direction, "parameters": (parameter,), "examples": {"train": 4}, "programs": programs}
    )


def test_programs_must_do_what_their_roles_say() -> None:
    assert misfits(report("minimize", template=2.0, reference=1.0, worse=3.0, broken=None)) == []
    assert misfits(report("maximize", template=2.0, reference=3.0, worse=1.0, alternatives=None)) == []
    wrong = misfits(report("maximize", template=2.0, reference=2.0, worse=2.0, broken=5.0))
    assert [sentence.split(" (")[0] for sentence in wrong] == [
        "reference.py", "worse.py", "broken.py is to fail, and fails on 0 of 4 instances",
    ]  # fmt: skip
    assert misfits(report("minimize", template=None)) == ["template.py fails on 4 of 4 instances: why"]


# -------------------------------------------------------------------------------------------------------- config


def test_a_new_config_says_how_to_run_it_and_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("new", "config")
    assert (done.returncode, done.stdout) == (0, "trace-bench.yaml\n")
    assert done.stderr == "run it with: trace-bench run trace-bench.yaml\n"
    text = Path("trace-bench.yaml").read_text()
    assert "trace-bench run trace-bench.yaml" in text and "config_file" not in text
    address = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert address.startswith("file:///")
    assert json.loads(Path(unquote(urlsplit(address).path)).read_text())["title"] == "a config file"
    done = here("run", "trace-bench.yaml", "-t", "internal:numeric_param", "--seeds", "1", "-q", "--backend", "local")
    assert done.returncode == 0 and "3 of 3 jobs ok" in done.stdout, done.stderr


def test_a_new_config_can_be_the_real_one_that_it_describes(tmp_path: Path) -> None:
    text = new_config(tmp_path / "mine.yaml").read_text()
    text = text.replace("mode: stub\n", "", 1)
    for commented in ("mode: real", "llm: {model", "budget: {calls"):
        text = text.replace(f"# {commented}", commented)
    (tmp_path / "mine.yaml").write_text(text)
    config = load_config(tmp_path / "mine.yaml")
    assert config.mode == "real" and config.llm is not None and config.budget.run.usd == 1


def test_a_config_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("precious")
    for name in ("mine.yaml", "mine"):
        assert_refused(done := here("new", "config", str(tmp_path / name)), 2)
        assert "mine.yaml is there already; choose another name" in done.stderr
    assert (tmp_path / "mine.yaml").read_text() == "precious"


# ------------------------------------------------------------------------------------------------------- trainer


@pytest.mark.parametrize("name", ["", "my-search", "a b", "class", "../x", "1st"])
def test_a_trainers_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no name for a trainer"):
        new_trainer(name, tmp_path)


@pytest.mark.parametrize(("name", "why"), [("PrioritySearch", "there is a trainer"), ("Json", "package 'json'")])
def test_a_name_that_is_taken_is_refused(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{why}.*choose another name"):
        new_trainer(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_trainer_is_a_package_that_installs_and_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("new", "trainer", "HillClimb2")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
    assert done.stderr == "try it with: pip install -e hill_climb2 && trace-bench run hill_climb2/try.yaml\n"
    texts = [path.read_text() for path in Path("hill_climb2").rglob("*.*")]
    assert not any(word in text for text in texts for word in ("TrainerName", "package_name", "package-name"))
    metadata = tomllib.loads(Path("hill_climb2/pyproject.toml").read_text())["project"]
    assert metadata["entry-points"]["trace_bench.trainers"] == {"HillClimb2": "hill_climb2:HillClimb2"}
    site = installed(tmp_path / "hill_climb2", "HillClimb2", "hill_climb2")
    environ = {"PYTHONPATH": str(site)}
    listed = cli("trainers", **environ).stdout.splitlines()
    assert any(line.startswith("HillClimb2\t") for line in listed)
    plan = json.loads(cli("run", "hill_climb2/try.yaml", "--dry-run", "--json", "--backend", "local", **environ).stdout)
    assert {job["trainer_id"] for job in plan["jobs"]} == {"HillClimb2", "NoOp"} and len(plan["jobs"]) == 8


def installed(folder: Path, name: str, package: str) -> Path:
    """What an installer makes of `folder`, without one."""
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[trace_bench.trainers]\n{name} = {package}:{name}\n")
    return folder


def test_a_new_trainer_asks_the_model_and_keeps_what_is_better(tmp_path: Path) -> None:
    new_trainer("Climb", tmp_path)
    space: dict[str, type] = {}
    exec((tmp_path / "climb" / "climb" / "__init__.py").read_text(), space)
    answers = iter(['{"suggestion": {"x": 2.5}}', "no JSON", '{"suggestion": {"x": 99}}', '{"suggestion": {"x": 1}}'])
    asked: list[tuple[str, str]] = []

    def chat(messages: list[dict[str, str]], *, slot: object, variables: object) -> dict[str, object]:
        asked.append((str(slot), messages[0]["content"]))
        return {"choices": [{"message": {"content": next(answers)}}]}

    steps, told = searched(space["Climb"](), {"num_steps": 4, "num_examples": 1}, chat)
    assert [(step.state["x"], step.accepted) for step in steps] == [(2.5, True), (1.0, False)]
    assert [slot for slot, _ in asked] == [f"step={n};candidate=best;proposal=0;attempt=0" for n in (1, 2, 3, 4)]
    assert '"x": 2.5' in asked[3][1] and "close to 3" in asked[0][1] and "feedback of" in asked[0][1]
    assert [kind for kind, _ in told] == ["proposal.unusable"] * 2 and "not in the bounds" in told[1][1]


class Context:
    """What the worker gives to the loop, for one number that should be close to 3."""

    seed, budget, embed, programs, extra_dir = 3, Budget(), None, None, None
    deterministic = True

    def __init__(self, chat: Callable[..., object]) -> None:
        self.chat = chat
        self.steps: list[Step] = []
        self.told: list[tuple[str, str]] = []

    def evaluate(self, state: dict[str, float], indices: Sequence[int], split: str) -> list[Rollout]:
        return [Rollout(str(i), -abs(state["x"] - 3), f"feedback of {split}") for i in indices]

    def check(self) -> None: ...

    def count_saved(self, number: int) -> None: ...

    def record(self, step: Step) -> None:
        self.steps.append(step)

    def event(self, kind: str, /, **fields: object) -> None:
        self.told.append((kind, str(fields["reason"])))

    @property
    def best_state(self) -> dict[str, float]:
        return {"x": 0.0}


def searched(trainer: Any, params: dict[str, int], chat: Any) -> tuple[list[Step], list[tuple[str, str]]]:
    """The steps of a search on the worker's own loop, without step 0, and the events."""
    problem = Problem(parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),), guide=lambda *_: (0.0, ""),
                      train=examples(["only"]), objective="be close to 3", direction="maximize",
                      failure_score=-13.0)  # fmt: skip
    context: Any = Context(chat)
    _, reason = run_search(trainer, problem, params, context)
    assert reason == "completed" and context.steps[0].step == 0
    return context.steps[1:], context.told


def test_tasks_of_published_rows_are_named_and_so_is_what_was_left_out(tmp_path: Path) -> None:
    rows = REPOSITORY / "tests" / "suites" / "veribench" / "data" / "rows.jsonl"
    done = cli("new", "tasks", "veribench", str(rows), "--root", str(tmp_path / "made"))
    assert done.returncode == 0, done.stderr
    assert [Path(line).name for line in done.stdout.splitlines()] == ["0_is_even", "1_first_longer", "6_task_6"]
    assert "left out: 2_counter: no function has annotations" in done.stderr
    assert "3 tasks made, 4 rows left out" in done.stderr
    listed = cli("list-tasks", "--bench", "veribench", "--root", str(tmp_path / "made"), "veribench:0")
    assert listed.stdout == "veribench:0_is_even\n", listed.stderr
    again = cli("new", "tasks", "veribench", str(rows), "--root", str(tmp_path / "made"))
    assert again.returncode == 2 and "0_is_even is there already" in again.stderr


def test_tasks_that_cannot_all_be_written_leave_nothing_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = REPOSITORY / "tests" / "suites" / "veribench" / "data" / "rows.jsonl"
    write, written = new._write, []

    def full(target: Path, text: str) -> Path:
        written.append(target)
        if len(written) == 6:
            raise ConfigError(f"{target} cannot be written: No space left on device")
        return write(target, text)

    monkeypatch.setattr(new, "_write", full)
    with pytest.raises(ConfigError, match="No space left"):
        new.new_tasks("veribench", rows, tmp_path / "made")
    assert list((tmp_path / "made").iterdir()) == []
    assert len(new.new_tasks("veribench", rows, tmp_path / "made").folders) == 3
