"""The builder of code tasks, on folders written here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_docs import write_files_of
from trace_bench.suites.code_task import CodeGuide
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import BuildContext, CandidateError, Problem, ProblemError, ScoreError

TOML = """
title = "Double a number"
statement = "Return twice the number."
interaction = "solve"
entry = "double"
signature = "def double(x: int) -> int: ..."

[score]
direction = "minimize"
failure = 100.0
best_known = 0.0
range = [0.0, 100.0]

[splits]
train = 2
validate = 1
test = 1

[limits]
wall_seconds = 3
cpu_seconds = 4
memory_mb = 512

[eval_kwargs.base]
type = "int"
default = 10

[candidates]
template = "template.py"
alternatives = ["better.py"]
"""
EVALUATOR = """
import random

from trace_bench.suites import checks


def instances(split, seed, count, *, base):
    rng = random.Random(seed)
    return [base + rng.randrange(10**9) for _ in range(count)]


def evaluate(program, instance, *, base):
    answer = checks.integer(program(instance), "the answer", low=-10**12, high=10**12)
    return min(100.0, abs(answer - 2 * instance)), f"{answer} for {instance}."
"""
TEMPLATE = "def double(x):\n    return x + x + 7\n"
BETTER = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "task.toml": TOML,
        "evaluator.py": EVALUATOR,
        "template.py": TEMPLATE,
        "better.py": BETTER,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


BuildTask = Callable[..., Problem]


def test_builds_one_code_parameter_from_the_files(folder: Path, build_at: BuildTask) -> None:
    problem = build_at(folder)
    (code,) = problem.parameters
    assert (code.name, code.kind, code.entry, code.value) == ("code", "code", "double", TEMPLATE)
    assert code.alternatives == (BETTER,)
    assert code.signature == "def double(x: int) -> int: ..."
    assert problem.initial_state() == {"code": TEMPLATE}
    assert problem.score_range == (100.0, 0.0), "worst first, although lower is better"
    assert "Return twice the number." in problem.objective
    assert "Lower is better. Best known score: 0." in problem.objective
    assert code.signature in problem.objective
    assert "Settings: base = 10." in problem.objective


def test_scores_in_natural_units_with_feedback_in_words(folder: Path, build_at: BuildTask) -> None:
    problem = build_at(folder)
    example = problem.train[0]
    score, feedback = problem.guide(None, TEMPLATE, example.reference)
    assert score == 7
    assert feedback.startswith("Score 7 (lower is better). Best known: 0; gap 7. ")
    assert problem.guide(None, BETTER, example.reference)[1].startswith(
        "Score 0 (lower is better). That reaches the best known score, 0."
    )


def test_an_evaluator_may_measure_metrics_that_the_spec_declares(folder: Path, build_at: BuildTask) -> None:
    spec, evaluator = folder / "task.toml", folder / "evaluator.py"
    evaluator.write_text(evaluator.read_text().rstrip() + ', {"size": abs(answer)}\n')
    declared = '\n[metrics.size]\ndirection = "minimize"\nfailure = 999\nrange = [0, 900]\n'
    plain = build_at(folder)
    with pytest.raises(ProblemError, match=r"where \(score, feedback\) is expected"):
        evaluate_state(plain, {"code": BETTER}, plain.train, plain.guide.programs)  # type: ignore[attr-defined]
    spec.write_text(spec.read_text() + declared)
    problem = build_at(folder)
    programs = problem.guide.programs  # type: ignore[attr-defined]
    good, *_ = evaluate_state(problem, {"code": BETTER}, problem.train, programs)
    bad, *_ = evaluate_state(problem, {"code": "def double(x):\n    return None\n"}, problem.train, programs)
    assert good.score == 0.0 and good.metrics == {"score": 0.0, "size": abs(2 * problem.train[0].reference)}
    assert bad.failed and bad.metrics == {"score": problem.failure_score, "size": 999.0}
    assert problem.metrics["size"].range == (900.0, 0.0)


def test_every_instance_runs_in_a_fresh_process(folder: Path, build_at: BuildTask) -> None:
    counting = "calls = 0\ndef double(x):\n    global calls\n    calls += 1\n    return 2 * x + calls - 1\n"
    problem = build_at(folder)
    assert [problem.guide(None, counting, e.reference)[0] for e in problem.train] == [0, 0]


@pytest.mark.parametrize(
    ("source", "phase", "line", "says"),
    [
        ("def double(x):\n    return x +\n", "compile", 2, "SyntaxError"),
        ("def triple(x):\n    return 3 * x\n", "compile", None, "double"),
        ("def double(x):\n    y = 0\n    return x / y\n", "call", 3, "ZeroDivisionError"),
        ("def double(x):\n    return None\n", "output", None, "the answer must be an int, not None"),
        ("def double(x):\n    return open\n", "output", None, ""),
        ("import os\ndef double(x):\n    os._exit(3)\n", "died", None, "code 3"),
    ],
)
def test_failures_name_phase_line_and_exception(
    folder: Path, build_at: BuildTask, source: str, phase: str, line: int | None, says: str
) -> None:
    problem = build_at(folder)
    with pytest.raises(CandidateError) as caught:
        problem.guide(None, source, problem.train[0].reference)
    assert (caught.value.phase, caught.value.line) == (phase, line)
    assert says in caught.value.message
    if line is not None:
        assert f"(the line reads: {source.splitlines()[line - 1].strip()})" in caught.value.message


def test_a_call_that_takes_too_long_is_a_timeout(folder: Path, build_at: BuildTask) -> None:
    problem = build_at(folder, timeout_seconds=0.3)
    with pytest.raises(CandidateError) as caught:
        problem.guide(None, "import time\ndef double(x):\n    time.sleep(60)\n", 1)
    assert caught.value.phase == "timeout"
    assert "0.3 s" in caught.value.message


def test_a_response_that_is_no_source_is_the_candidates_failure(folder: Path, build_at: BuildTask) -> None:
    with pytest.raises(CandidateError, match="must be source text, not int"):
        build_at(folder).guide(None, 3, 1)


def test_limits_come_from_the_spec_and_timeout_seconds(folder: Path, build_at: BuildTask) -> None:
    def limits(**given: Any) -> tuple[float, float, int]:
        guide = build_at(folder, **given).guide
        assert isinstance(guide, CodeGuide)
        return guide.limits.wall_seconds, guide.limits.cpu_seconds, guide.limits.memory_bytes

    assert limits() == (3, 4, 512 << 20)
    assert limits(timeout_seconds=1) == (1, 4, 512 << 20)
    assert limits(timeout_seconds=9) == (9, 9, 512 << 20)


def test_splits_have_the_sizes_of_spec_or_config(folder: Path, build_at: BuildTask) -> None:
    def sizes(**given: Any) -> list[int]:
        problem = build_at(folder, **given)
        return [len(split) for split in (problem.train, problem.validate, problem.test)]

    assert sizes() == [2, 1, 0]
    assert sizes(test_seed=1) == [2, 1, 1]
    assert sizes(test_seed=1, num_train=3, num_validate=0, num_test=4) == [3, 0, 4]


def test_ids_tell_split_and_place(folder: Path, build_at: BuildTask) -> None:
    problem = build_at(folder, test_seed=1)
    assert [e.id for e in (*problem.train, *problem.validate, *problem.test)] == [
        "train-0",
        "train-1",
        "validate-0",
        "test-0",
    ]


def test_splits_and_seeds_share_no_instance(folder: Path, build_at: BuildTask) -> None:
    seen: list[int] = []
    for seed in (1, 2):
        problem = build_at(folder, seed=seed, test_seed=seed, num_train=20, num_validate=20, num_test=20)
        seen += [e.reference for split in (problem.train, problem.validate, problem.test) for e in split]
    assert len(seen) == len(set(seen)) == 120


def test_the_test_seed_equal_to_the_seed_gives_other_data(folder: Path, build_at: BuildTask) -> None:
    problem = build_at(folder, seed=5, test_seed=5)
    assert problem.test[0].reference != problem.train[0].reference


def test_the_evaluators_hooks_go_before_the_spec(folder: Path, build_at: BuildTask) -> None:
    (folder / "evaluator.py").write_text(
        EVALUATOR
        + "\ndef failure_score(*, base): return base * 2"
        + "\ndef best_known(*, base): return None"
        + "\ndef score_range(*, base): return 1, base * 2"
        + "\ndef split_sizes(*, base): return {'train': 4}\n"
    )
    problem = build_at(folder, base=30)
    assert problem.failure_score == 60
    assert problem.score_range == (60, 1)
    assert len(problem.train) == 4
    assert len(problem.validate) == 1
    assert "Best known" not in problem.objective


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    rng = random", "    rng = randon", "evaluator.py, line 8: NameError: name 'randon' is not defined"),
        ("range(count)", "range(count + 1)", "instances() gave 3 for train where 2 were asked for"),
        ("import random\n", "import randon\n", "evaluator.py, line 2: ModuleNotFoundError"),
        ("def instances(", "def instances(:", "evaluator.py, line 7: SyntaxError"),
        ("def evaluate(", "def judge(", "evaluator.py defines no evaluate()"),
        ("count, *, base):", "count):", "TypeError"),
    ],
)
def test_faults_of_the_evaluator_are_the_tasks_and_name_the_line(
    folder: Path, build_at: BuildTask, old: str, new: str, says: str
) -> None:
    assert old in EVALUATOR
    (folder / "evaluator.py").write_text(EVALUATOR.replace(old, new))
    with pytest.raises(ProblemError) as caught:
        build_at(folder)
    assert says in str(caught.value)
    assert str(folder.parent) not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("    return 1 / 0, ''", "evaluator.py, line 13: ZeroDivisionError: division by zero"),
        ("    return 1.0", "evaluate() must return (score, feedback)"),
    ],
)
def test_an_evaluator_that_fails_while_scoring_is_no_candidate_error(
    folder: Path, build_at: BuildTask, line: str, says: str
) -> None:
    head, _ = EVALUATOR.split("    answer = ")
    (folder / "evaluator.py").write_text(head + line + "\n")
    problem = build_at(folder)
    with pytest.raises(ProblemError) as caught:
        problem.guide(None, BETTER, 1)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("score", "says"), [("float('nan')", "nan"), ("'1'", "of type str"), ("10 ** 400", "too large")]
)
def test_a_score_that_is_no_finite_number_is_the_failure_of_the_answer(
    folder: Path, build_at: BuildTask, score: str, says: str
) -> None:
    head, _ = EVALUATOR.split("    answer = ")
    (folder / "evaluator.py").write_text(f"{head}    return {score}, ''\n")
    problem = build_at(folder)
    with pytest.raises(ScoreError, match="the score of this answer is") as caught:
        problem.guide(None, BETTER, 1)
    assert says in str(caught.value)


class LostSandbox(Exception):
    pass


class BreakingPrograms:
    """Programs whose runner breaks at the first call."""

    def open(self, source: str, entry: str, limits: Any = None) -> BreakingPrograms:
        return self

    def __enter__(self) -> BreakingPrograms:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, *args: Any) -> Any:
        raise LostSandbox("the spawner is gone")


def test_trouble_of_the_runner_is_neither_the_tasks_nor_the_candidates(folder: Path, build_at: BuildTask) -> None:
    guide = build_at(folder).guide
    assert isinstance(guide, CodeGuide)
    broken = CodeGuide(guide.evaluator, BreakingPrograms(), guide.entry, guide.limits, guide.score)
    with pytest.raises(LostSandbox):
        broken(None, BETTER, 1)


def test_a_candidate_file_outside_the_folder_is_refused(folder: Path, build_at: BuildTask, programs: Any) -> None:
    from trace_bench.suites.code_task import build

    context = BuildContext(
        task_dir=folder,
        spec={
            "statement": "s",
            "entry": "double",
            "signature": "s",
            "score": {"direction": "minimize", "failure": 1},
            "candidates": {"template": "../template.py"},
        },
        eval_kwargs={"base": 1},
        seed=1,
        programs=programs,
    )
    with pytest.raises(ProblemError, match=r"\.\./template\.py lies outside the task folder"):
        build(context)


def test_building_leaves_the_folder_as_it_was(folder: Path, build_at: BuildTask) -> None:
    before = sorted(p.name for p in folder.rglob("*"))
    build_at(folder)
    assert sorted(p.name for p in folder.rglob("*")) == before


def test_the_evaluator_of_the_how_to_blames_a_wrong_answer_on_the_program(tmp_path: Path, build_at: BuildTask) -> None:
    write_files_of("how-to/write-an-evaluator.md", tmp_path)
    guide = build_at(tmp_path / "my-tasks" / "sum_digits").guide
    assert guide(None, "def digit_sum(number):\n    return sum(map(int, str(number)))\n", [12, 345])[0] == 1.0
    with pytest.raises(CandidateError, match=r"^output failed: digit_sum\(12\) returned str, expected an int$"):
        guide(None, "def digit_sum(number):\n    return str(number)\n", [12, 345])


@pytest.mark.parametrize("raised", ['CandidateError("it is no list")', 'CandidateError(f"{answer} is no list")'])
def test_an_evaluator_that_raises_the_error_wrongly_is_told_how_to(
    folder: Path, build_at: BuildTask, raised: str
) -> None:
    evaluator = folder / "evaluator.py"
    source = "from trace_bench.worker.problem import CandidateError\n" + EVALUATOR.replace(
        "    return min(", f"    raise {raised}\n    return min("
    )
    evaluator.write_text(source)
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "raise" in text)
    with pytest.raises(ProblemError) as caught:
        build_at(folder).guide(None, TEMPLATE, 5)
    assert str(caught.value) == (
        f"{folder.name}/evaluator.py, line {line}: TypeError: CandidateError takes a phase and a message, as in "
        'CandidateError("output", "the answer is not a list"); the task\'s own code is at fault'
    )
