"""The tasks that ship: what each starts from, what solves it, what fails it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.resources import data_dir
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import CandidateError, Problem, ProblemError, Programs

TASKS = (
    "internal:code_param",
    "internal:numeric_param",
    "internal:many_param",
    "internal:multi_param",
    "internal:multiobjective_bbeh",
    "internal:multiobjective_convex",
    "internal:non_trainable",
    "trace_examples:greeting_stub",
    "trace_examples:train_single_node_stub",
    "trace_examples:opentrace_greeting",
    "trace_examples:opentrace_train_single_node",
    "llm4ad:circle_packing",
    "llm4ad:optimization/online_bin_packing",
)
BuildTask = Callable[..., Problem]
Score = Callable[..., float]


@pytest.fixture
def score(programs: Programs) -> Score:
    """Mean training score of a state, as the worker computes it."""

    def of(problem: Problem, **state: Any) -> float:
        rollouts = evaluate_state(problem, problem.initial_state() | state, problem.train, programs)
        return mean(r.score for r in rollouts)

    return of


@pytest.mark.parametrize("task", TASKS)
def test_spec_says_what_a_reader_needs(task: str) -> None:
    spec = load_task_spec(resolve(task).folder)
    assert len(spec.statement) > 150
    assert "\\n" not in spec.statement
    assert spec.source
    assert spec.licence == "MIT"
    assert spec.score.range is not None
    assert all(argument.doc for argument in spec.eval_kwargs.values())


@pytest.mark.parametrize("task", TASKS)
def test_problem_agrees_with_its_spec(task: str, build_task: BuildTask) -> None:
    spec = load_task_spec(resolve(task).folder)
    problem = build_task(task, test_seed=7)
    assert spec.statement.strip() in problem.objective
    assert problem.direction == spec.score.direction
    assert problem.score_range is not None and spec.score.range is not None
    low, high = sorted(spec.score.range)
    if task.startswith("llm4ad:"):  # those of its instances; the spec's hold for instances of every size
        assert all(low <= value <= high for value in (*problem.score_range, problem.failure_score))
    else:
        assert problem.failure_score == spec.score.failure
        assert sorted(problem.score_range) == pytest.approx([low, high], abs=1e-3)
    assert [len(problem.train), len(problem.validate), len(problem.test)] == [
        spec.splits.train,
        spec.splits.validate_,
        spec.splits.test,
    ]
    ids = [e.id for e in (*problem.train, *problem.validate, *problem.test)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("task", TASKS)
def test_failure_is_no_better_than_the_worst_of_the_range(task: str, build_task: BuildTask) -> None:
    problem = build_task(task)
    assert problem.score_range is not None
    worst, best = problem.score_range
    assert not problem.better(problem.failure_score, worst)
    assert problem.better(best, worst)


@pytest.mark.parametrize("task", TASKS)
def test_equal_seeds_build_equal_problems(task: str, build_task: BuildTask) -> None:
    one, two = build_task(task, seed=4, test_seed=9), build_task(task, seed=4, test_seed=9)
    assert (one.parameters, one.train, one.validate, one.test) == (
        two.parameters,
        two.train,
        two.validate,
        two.test,
    )


@pytest.mark.parametrize("task", [t for t in TASKS if t != "internal:non_trainable"])
def test_the_start_is_unsolved_and_an_alternative_improves_it(task: str, build_task: BuildTask, score: Score) -> None:
    given = {"n_items": 200} if "bin_packing" in task else {}
    problem = build_task(task, **given)
    start = score(problem)
    assert problem.score_range is not None and start != problem.score_range[1]
    choices = [(p.value, *p.alternatives) for p in problem.trainable]
    names = [p.name for p in problem.trainable]
    states = [dict(zip(names, values, strict=True)) for values in product(*choices)]
    assert any(problem.better(score(problem, **state), start) for state in states)


@pytest.mark.parametrize("task", TASKS)
def test_numbers_have_bounds_that_hold_their_values(task: str, build_task: BuildTask) -> None:
    for parameter in build_task(task).parameters:
        if parameter.kind in ("int", "float"):
            assert parameter.bounds is not None
            low, high = parameter.bounds
            expected = int if parameter.kind == "int" else float
            for value in (parameter.value, *parameter.alternatives):
                assert type(value) is expected
                assert low <= value <= high


# -- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "name"), [("internal:numeric_param", "guess"), ("trace_examples:train_single_node_stub", "x")]
)
def test_a_number_scores_minus_its_distance_to_three(task: str, name: str, build_task: BuildTask, score: Score) -> None:
    problem = build_task(task)
    for value in (0.0, 2.5, 3.0, 4.25, 6.0):
        assert score(problem, **{name: value}) == -abs(value - 3)
    assert "too small" in problem.guide(None, 1.0, problem.train[0].reference)[1]
    assert "too large" in problem.guide(None, 5.0, problem.train[0].reference)[1]


CAMEL = "internal:multiobjective_convex"


def test_the_two_losses_are_known_at_known_points(build_task: BuildTask) -> None:
    problem = build_task(CAMEL)
    for x1, x2, base in [
        (0.0, 0.0, 0.0), (0.0898420131, -0.7126564030, -1.03162845349), (-0.0898420131, 0.7126564030, -1.03162845349),
        (1.7036067249, -0.7960835687, -0.21546382438), (1.0, 1.0, 3.2 + 1 / 30), (3.0, 2.0, 162.9),
    ]:  # fmt: skip
        score, feedback, metrics = problem.guide(None, [x1, x2], None)  # type: ignore[misc]
        assert metrics == {"base_loss": pytest.approx(base, abs=1e-9), "reg_loss": x1 * x1 + x2 * x2}
        assert score == metrics["base_loss"] + metrics["reg_loss"] and "base_loss" in feedback


def test_no_point_has_a_lower_loss_than_the_best_known_and_none_is_as_bad_as_a_failure(build_task: BuildTask) -> None:
    problem = build_task(CAMEL)
    spec = load_task_spec(resolve(CAMEL).folder)
    camel = load_module(resolve(CAMEL).folder / "problem.py").camel
    points = [(a / 20, b / 20) for a in range(-60, 61) for b in range(-40, 41)]
    sums = [camel(x1, x2) + x1 * x1 + x2 * x2 for x1, x2 in points]
    assert spec.score.best_known is not None
    assert spec.score.best_known <= min(sums) < spec.score.best_known + 0.01
    assert math.isclose(camel(0.0619465738, -0.6174708060) + 0.0619465738**2 + 0.6174708060**2, spec.score.best_known)
    for name, values in (
        ("base_loss", [camel(*point) for point in points]),
        ("reg_loss", [x1 * x1 + x2 * x2 for x1, x2 in points]),
    ):
        metric = spec.metrics[name]
        assert metric.range is not None and metric.range[0] <= min(values) and max(values) <= metric.range[1] + 1e-9
        assert metric.failure > max(values) and problem.metrics[name].failure == metric.failure
    assert problem.failure_score > max(sums)


@pytest.mark.parametrize("wrong", ["x = [0, 0]", None, math.nan, 3.0001, True])
def test_what_is_no_point_is_worse_than_every_point(wrong: Any, build_task: BuildTask, programs: Programs) -> None:
    problem = build_task(CAMEL)
    (failed,) = evaluate_state(problem, {"x1": wrong, "x2": 0.0}, problem.train, programs)
    (worst,) = evaluate_state(problem, {"x1": 3.0, "x2": 2.0}, problem.train, programs)
    assert failed.failed and not worst.failed and failed.metrics.keys() == worst.metrics.keys()
    assert all(failed.metrics[name] > worst.metrics[name] for name in failed.metrics)


@pytest.mark.parametrize("start", [[1.0], [0.0, 2.5], ["a", 0.0], [0.0, 0.0, 0.0]])
def test_a_start_that_is_no_point_is_refused(start: list[Any], build_task: BuildTask) -> None:
    with pytest.raises(ProblemError, match=r"eval_kwargs.start: .*; give"):
        build_task(CAMEL, start=start)
    assert build_task(CAMEL, start=[1, -1]).initial_state() == {"x1": 1.0, "x2": -1.0}


def test_numeric_param_starts_where_it_is_told(build_task: BuildTask) -> None:
    assert build_task("internal:numeric_param").initial_state() == {"guess": 0.0}
    assert build_task("internal:numeric_param", start=-4).initial_state() == {"guess": -4.0}


def test_many_numbers_are_judged_by_every_example_otherwise(build_task: BuildTask, score: Score) -> None:
    problem = build_task("internal:many_param")
    hidden = problem.train[0].reference["hidden"]
    assert score(problem, **hidden) == 0
    one_off = score(problem, **hidden | {"p2": hidden["p2"] - 1})
    shares = [e.reference["weights"][2] / sum(e.reference["weights"]) for e in problem.train]
    assert one_off == pytest.approx(-mean(shares)) and len(set(shares)) == len(shares)
    _, feedback = problem.guide(None, [*list(hidden.values())[:2], hidden["p2"] - 1, *list(hidden.values())[3:]],
                                problem.train[0].reference)  # fmt: skip
    assert feedback == "p2 costs most: it is too small."
    other = build_task("internal:many_param", seed=2)
    assert other.train[0].reference["hidden"] != hidden and problem.validate[0] != problem.train[0]


def test_two_integers_score_by_their_sum(build_task: BuildTask, score: Score) -> None:
    problem = build_task("internal:multi_param")
    assert problem.initial_state() == {"a": 0, "b": 0}
    assert score(problem) == -3
    assert score(problem, a=5) == -2
    assert score(problem, a=-17, b=20) == 0


@pytest.mark.parametrize("bad", ["1", 1.0, True, None, 21, 10**400])
def test_what_is_no_summand_fails_the_candidate(bad: Any, build_task: BuildTask, programs: Programs) -> None:
    problem = build_task("internal:multi_param")
    (rollout,) = evaluate_state(problem, {"a": bad, "b": 1}, problem.train, programs)
    assert rollout.failed
    assert rollout.score == problem.failure_score
    assert "integers from -20 to 20" in rollout.feedback


@pytest.mark.parametrize(
    ("task", "bad"),
    [
        (task, bad)
        for task in (
            "internal:numeric_param",
            "trace_examples:train_single_node_stub",
            "trace_examples:opentrace_train_single_node",
        )
        for bad in (math.nan, math.inf, "3", None, True, 1e9)
    ],
)
def test_what_is_no_admissible_number_fails_the_candidate(
    task: str, bad: Any, build_task: BuildTask, programs: Programs
) -> None:
    problem = build_task(task)
    (rollout,) = evaluate_state(problem, {problem.trainable[0].name: bad}, problem.train, programs)
    assert (rollout.failed, rollout.score) == (True, problem.failure_score)


def test_the_hidden_number_follows_from_the_seed_and_feedback_finds_it(build_task: BuildTask) -> None:
    hidden = set()
    for seed in range(12):
        problem = build_task("trace_examples:opentrace_train_single_node", seed=seed)
        low, high = 0, 100
        for _ in range(7):
            guess = (low + high) // 2
            score, feedback = problem.guide(None, guess, problem.train[0].reference)
            if score == 0:
                break
            low, high = (guess + 1, high) if "larger" in feedback else (low, guess - 1)
        assert score == 0
        hidden.add(guess)
        assert problem.validate[0].reference == guess
    assert len(hidden) > 6
    assert 50 not in hidden, "the start is never the answer"


def test_non_trainable_has_nothing_to_train(build_task: BuildTask) -> None:
    problem = build_task("internal:non_trainable")
    assert problem.parameters and problem.trainable == ()


# -- text --------------------------------------------------------------------------------------------------------


def test_greeting_must_match_exactly(build_task: BuildTask, score: Score) -> None:
    problem = build_task("trace_examples:greeting_stub")
    assert score(problem) == 0
    assert score(problem, greeting="Hello, Sam!") == 1
    assert score(problem, greeting="Hello, Sam! ") == 0
    _, feedback = problem.guide(None, "Hello, Sue!", problem.train[0].reference)
    assert "its first 8 characters are right" in feedback


# -- code --------------------------------------------------------------------------------------------------------


def encoder(problem: Problem) -> Mapping[str, str]:
    names = ("worse", "partial", "correct", "broken")
    return dict(zip(names, map(str, problem.parameters[0].alternatives), strict=True))


def test_code_param_is_scored_by_running_it(build_task: BuildTask, score: Score) -> None:
    problem = build_task("internal:code_param", num_train=5)
    sources = encoder(problem)
    assert score(problem, code=sources["correct"]) == 1
    assert score(problem, code=sources["broken"]) == 0
    start = score(problem)
    assert score(problem, code=sources["worse"]) <= start < score(problem, code=sources["partial"]) < 1
    respelled = "def encode(s):\n import re\n return re.sub(r'(.)\\1*', lambda m: m[1] + str(len(m[0])), s)\n"
    assert score(problem, code=respelled) == 1


def test_code_param_shows_the_first_mistake(build_task: BuildTask) -> None:
    problem = build_task("internal:code_param")
    _, feedback = problem.guide(None, encoder(problem)["worse"], ("ab", "aaa"))
    assert "0 of 2 strings are right. First mistake: encode('ab') gave 'ab', due is 'a1b1'." in feedback


@given(answer=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.text()))
def test_no_answer_makes_code_param_raise_anything_but_candidate_error(answer: Any) -> None:
    evaluator = load_module(data_dir("benchmarks") / "internal/code_param/evaluator.py")
    try:
        value, _ = evaluator.evaluate(lambda text: answer, ("ab", ""), n_strings=2)
    except CandidateError:
        return
    assert 0 <= value <= 1


# -- the greeting agent ------------------------------------------------------------------------------------------

GREETING = "trace_examples:opentrace_greeting"


def test_agent_starts_with_english_only_and_needs_both_operators(build_task: BuildTask, score: Score) -> None:
    problem = build_task(GREETING)
    decide, greet = problem.parameters
    assert score(problem) == 0.75, "both English sentences are right, the Spanish ones have the name only"
    by_words, both = decide.alternatives[1], greet.alternatives[0]
    assert score(problem, decide_lang=by_words) == 0.75
    assert score(problem, greet=both) == 0.75
    assert score(problem, decide_lang=by_words, greet=both) == 1.0


def test_agents_operators_fail_as_candidates(build_task: BuildTask, programs: Programs) -> None:
    problem = build_task(GREETING)
    decide, _ = problem.parameters
    broken = {**problem.initial_state(), "decide_lang": decide.alternatives[2]}
    rollouts = evaluate_state(problem, broken, problem.train, programs)
    assert all(r.failed and r.score == 0 and "KeyError" in r.feedback for r in rollouts)


@pytest.mark.parametrize("answer", ["None", "3", "['Hello', 'Sam']", "'x' * 100000", "b'Hello'"])
def test_a_greeting_that_is_no_text_fails_the_candidate(answer: str, build_task: BuildTask, programs: Programs) -> None:
    problem = build_task(GREETING)
    state = {**problem.initial_state(), "greet": f"def greet(lang, name):\n    return {answer}\n"}
    assert all(r.failed for r in evaluate_state(problem, state, problem.train, programs))


def test_sentences_alternate_and_the_guide_explains(build_task: BuildTask) -> None:
    problem = build_task(GREETING, num_train=6, test_seed=3)
    assert [e.reference[0] for e in problem.train] == ["en", "es"] * 3
    assert len(problem.test) == 4
    spanish = problem.train[1]
    _, name = spanish.reference
    score, feedback = problem.guide(spanish.query, "Hello, you!", spanish.reference)
    assert score == 0
    assert "is Spanish, so the greeting needs 'Hola' and no 'Hello'" in feedback
    assert f"it lacks the name {name!r}" in feedback
    assert problem.guide(spanish.query, f"Hello Hola {name}", spanish.reference)[0] == 0.5
