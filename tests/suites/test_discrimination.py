"""What makes tasks tell programs apart: sizes, levels of the reference, and best known scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites.best_known import BestKnown, digest, name_of
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker.evaluate import best_known, evaluate_state, mean_best_known
from trace_bench.worker.problem import Problem, Programs
from trace_bench.worker.program_check import check_programs

TOML = """
title = "Guess high"
statement = "Return a number up to `top`."
interaction = "solve"
entry = "guess"
signature = "def guess(top: int) -> int: ..."

[score]
direction = "maximize"
failure = 0.0
range = [0.0, 1000.0]

[metrics.normalised]
direction = "maximize"
failure = 0.0
range = [0.0, 1.0]
doc = "answer / top"

[splits]
train = 2
validate = 1
test = 2

[eval_kwargs.n_instance]
type = "int"
default = 2

[eval_kwargs.top]
type = "int"
default = 100
minimum = 1
doc = "largest top"

[sizes.small]
top = 10

[sizes.large]
top = 1000

[candidates]
template = "template.py"
reference = "reference.py"
worse = ["worse.py"]
broken = ["broken.py"]
levels = 3

[data]
folder = "Tops"
files = ["top*.txt"]
"""
EVALUATOR = """
from trace_bench.suites import checks


def instance(rng, *, top):
    return {"top": int(rng.integers(top // 2, top + 1))}


def read(text, name):
    return [{"top": int(line.split()[0])} | ({"best_known": float(line.split()[1])} if " " in line else {})
            for line in text.splitlines()]


def answer(program, instance):
    return checks.integer(program(instance["top"]), "the answer", low=0, high=instance["top"])


def score(instance, answer):
    return float(answer)


def worst(instance):
    return 0.0


def bound(instance):
    return float(instance["top"])
"""
PROGRAMS = {
    "worse.py": "def guess(top):\n    return top // 10\n",
    "template.py": "def guess(top):\n    return top // 5\n",
    "reference.py": "LEVEL = 3\n\n\ndef guess(top):\n    return top * (LEVEL + 1) // 5\n",
    "broken.py": "def guess(top):\n    return -1\n",
}
Build = Callable[..., Problem]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"task.toml": TOML, "evaluator.py": EVALUATOR, **PROGRAMS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def tops(problem: Problem, split: str = "train") -> list[int]:
    return [example.reference["top"] for example in getattr(problem, split)]


def scored(problem: Problem, name: str, programs: Programs, split: str = "train") -> list[Any]:
    source = PROGRAMS[name]
    return list(evaluate_state(problem, {"code": source}, getattr(problem, split), programs))


def know(folder: Path, problem: Problem, **files: Any) -> None:
    """Write the table of the training instances: the template's score, and three quarters of the top as best known."""
    there = [e.reference for e in problem.train]
    entries = {digest(i): [i["top"] // 5, 0.75 * i["top"], "made up"] for i in there}
    table = {"standard": {"template": 0.2, "best": 0.75, "instances": entries}, "files": files}
    (folder / "best_known.json").write_text(json.dumps(table))


# ------------------------------------------------------------------------------------------------------------- sizes


def test_a_size_changes_the_defaults_and_an_argument_goes_before_it(folder: Path, build_at: Build) -> None:
    assert all(50 <= top <= 100 for top in tops(build_at(folder)))
    assert all(5 <= top <= 10 for top in tops(build_at(folder, size="small")))
    assert all(20 <= top <= 40 for top in tops(build_at(folder, size="small", top=40)))


def test_a_size_is_an_argument_that_the_evaluator_does_not_see(folder: Path) -> None:
    spec = load_task_spec(folder)
    assert resolve_eval_kwargs(spec, {"size": "large"}, lambda key: key) == {
        "n_instance": 2,
        "top": 1000,
        "size": "large",
    }
    assert resolve_eval_kwargs(spec, {}, lambda key: key) == {"n_instance": 2, "top": 100}, "ids stay as they were"


def test_test_size_shapes_held_out_instances_alone(folder: Path, build_at: Build) -> None:
    problem = build_at(folder, test_size="large", test_seed=9, top=30)
    assert all(top <= 30 for top in tops(problem)) and all(top >= 500 for top in tops(problem, "test"))
    assert all(
        50 <= top <= 100 for top in tops(build_at(folder, size="small", test_size="standard", test_seed=9), "test")
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[sizes.small]\ntop = 10", "[sizes.small]\ntpo = 10", "'tpo' is none of eval_kwargs"),
        ("[sizes.small]\ntop = 10", "[sizes.small]\ntop = 0", "at least 1"),
        ("[sizes.small]", "[sizes.tiny]", "tiny"),
        ("levels = 3", "levels = 4", "has not exactly one line 'LEVEL = 4'"),
        ('reference = "reference.py"\n', "", "they are levels of the reference"),
    ],
)
def test_faults_of_sizes_and_levels_are_named(folder: Path, old: str, new: str, said: str) -> None:
    (folder / "task.toml").write_text(TOML.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        load_task_spec(folder)


def test_an_unknown_size_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="small"):
        resolve_eval_kwargs(load_task_spec(folder), {"size": "huge"}, lambda key: key)


# ------------------------------------------------------------------------------------------------------------ levels


def test_the_ladder_goes_from_broken_to_the_reference(folder: Path, build_at: Build) -> None:
    (code,) = build_at(folder).parameters
    broken, worse, template, first, second, reference = map(str, code.ladder)
    assert (broken, worse, template, reference) == tuple(
        PROGRAMS[f"{name}.py"] for name in ("broken", "worse", "template", "reference")
    )
    assert first.startswith("LEVEL = 1\n") and second.startswith("LEVEL = 2\n")


def test_levels_are_checked_as_programs(folder: Path, build_at: Build, programs: Programs) -> None:
    problem = build_at(folder)
    found = check_programs(problem, load_task_spec(folder).raw, folder, programs)
    by_name = {report["name"]: report["score"] for report in found if report["role"] in ("level", "reference")}
    assert list(by_name) == ["level 1", "level 2", "reference.py"]
    assert by_name["level 1"] < by_name["level 2"] < by_name["reference.py"]


# ------------------------------------------------------------------------------------------------------- best known


def test_a_score_beyond_the_best_known_one_says_so(folder: Path, build_at: Build, programs: Programs) -> None:
    know(folder, build_at(folder))
    problem = build_at(folder)
    for rollout, top in zip(scored(problem, "reference.py", programs), tops(problem), strict=True):
        assert f"better than the best known score, {0.75 * top:.10g} (made up)" in rollout.feedback
    assert "best known" not in scored(problem, "template.py", programs)[0].feedback


def test_the_scorer_knows_the_best_score_of_instances_in_the_table_alone(folder: Path, build_at: Build) -> None:
    know(folder, build_at(folder))
    problem = build_at(folder)
    assert [best_known(problem, e) for e in problem.train] == [0.75 * top for top in tops(problem)]
    assert mean_best_known(problem, problem.train) == pytest.approx(0.75 * sum(tops(problem)) / 2)
    other = build_at(folder, seed=77)
    assert [best_known(other, e) for e in other.train] == [None, None]
    assert mean_best_known(other, (*problem.train, *other.train)) is None


def test_the_gap_is_no_metric_of_a_sandbox(folder: Path, build_at: Build, programs: Programs) -> None:
    know(folder, build_at(folder))
    assert "gap" not in load_task_spec(folder).metrics
    assert "gap" not in scored(build_at(folder), "template.py", programs)[0].metrics


def test_published_files_are_judged_by_their_best_known_scores(
    folder: Path, build_at: Build, programs: Programs
) -> None:
    """By the file itself, or by the table, which goes before it; without either the bound holds."""
    know(folder, build_at(folder), **{name_of("top2.txt", 2): [50, "a paper"]})
    data = folder / "data" / "train"
    data.mkdir(parents=True)
    (data / "top2.txt").write_text("100 80\n100 90\n100\n")
    problem = build_at(folder, n_instance=3)
    shares = [rollout.metrics["normalised"] for rollout in scored(problem, "template.py", programs)]
    assert shares == pytest.approx([20 / 80, 20 / 50, 20 / 100])
    second = scored(problem, "reference.py", programs)[1]
    assert "better than the best known score, 50 (a paper)" in second.feedback
    assert [best_known(problem, e) for e in problem.train] == [80, 50, None]


def test_a_broken_table_is_the_tasks_fault(folder: Path) -> None:
    (folder / "best_known.json").write_text("[]")
    with pytest.raises(Exception, match=r"best_known.json: must be an object"):
        BestKnown.of(folder)
