from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.resources import data_dir
from trace_bench.suites.judge import Judge
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.problem import CandidateError, Problem, ProblemError

TASK = "llm4ad:circle_packing"
FOLDER = data_dir("benchmarks") / "LLM4AD/benchmark_tasks/circle_packing"
JUDGE = Judge(load_module(FOLDER / "evaluator.py"), load_task_spec(FOLDER).raw)


def score(rows: Any, n: int | None = None) -> float:
    """What the evaluator makes of an answer."""
    size = len(rows) if n is None else n
    value, _, metrics = JUDGE.evaluate(lambda asked: rows, {"n": size})  # type: ignore[arg-type, return-value]
    assert metrics["normalised"] == value / (JUDGE.target({"n": size}))
    assert isinstance(value, float)
    return value


def refusal(rows: Any, n: int) -> str:
    with pytest.raises(CandidateError) as caught:
        score(rows, n)
    assert caught.value.phase == "output"
    return caught.value.message


def scores(problem: Problem) -> list[float]:
    (example,) = problem.train
    values = []
    for source in (problem.parameters[0].value, *problem.parameters[0].alternatives[:2]):
        value, *_ = problem.guide(None, source, example.reference)
        values.append(value)
    return values


def test_template_is_valid_and_lies_between_worse_and_better(build_task: Callable[..., Problem]) -> None:
    template, worse, better = scores(build_task(TASK))
    assert template == pytest.approx(26 / 12, abs=1e-9)
    assert worse == pytest.approx(0.5, abs=1e-9)
    assert 2.4 < better < 2.636


def test_broken_program_fails_with_what_is_wrong_and_by_how_much(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    with pytest.raises(CandidateError, match=r"13 of 26 circles reach outside .* by 0\.00833"):
        problem.guide(None, problem.parameters[0].alternatives[2], problem.train[0].reference)


def test_feedback_tells_score_direction_best_known_and_gap(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    _, feedback, *_ = problem.guide(None, problem.parameters[0].value, problem.train[0].reference)
    assert feedback.startswith("Score 2.166666667 (higher is better). Best known: 2.63598; gap 0.469316.")


def test_best_known_is_known_for_its_n_only(build_task: Callable[..., Problem]) -> None:
    assert build_task(TASK).metadata["best_known"] == 2.635983085
    other = build_task(TASK, n=7)
    assert other.metadata["best_known"] is None
    assert "Best known" not in other.guide(None, other.parameters[0].value, other.train[0].reference)[1]


def test_no_alternative_beats_the_range(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    assert problem.score_range is not None
    assert problem.score_range[0] <= min(scores(problem)) <= max(scores(problem)) <= problem.score_range[1]


@pytest.mark.parametrize("n", [1, 2, 5, 200])
def test_template_and_worse_are_valid_for_every_n(build_task: Callable[..., Problem], n: int) -> None:
    problem = build_task(TASK, n=n)
    for source in (problem.parameters[0].value, problem.parameters[0].alternatives[0]):
        value, *_ = problem.guide(None, source, problem.train[0].reference)
        assert value > 0


def test_touching_circles_do_not_overlap() -> None:
    quarter = [(x, y, 0.25) for x in (0.25, 0.75) for y in (0.25, 0.75)]
    assert score(quarter) == 1.0
    third = [((2 * i + 1) / 6, (2 * j + 1) / 6, 1 / 6) for i in range(3) for j in range(3)]
    assert score(third) == pytest.approx(1.5, abs=1e-12)


def test_a_tolerated_overlap_gains_nothing() -> None:
    honest = np.array([(x, y, 0.25) for x in (0.25, 0.75) for y in (0.25, 0.75)])
    swollen = honest.copy()
    swollen[:, 2] += 0.4e-9
    assert score(honest) - 5e-9 < score(swollen) <= score(honest)
    swollen[:, 2] += 1e-9
    assert "reach outside" in refusal(swollen, 4)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 12), size=st.floats(0.0, 3e-9))
def test_an_accepted_score_is_that_of_a_strictly_valid_packing(seed: int, n: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    k = math.ceil(math.sqrt(n))
    rows = np.array([((i % k + 0.5) / k, (i // k + 0.5) / k, 0.5 / k) for i in range(n)])
    rows += rng.uniform(-size, size, rows.shape)
    rows[:, 2] = np.maximum(rows[:, 2], 0)
    try:
        value = score(rows)
    except CandidateError:
        return
    # Independent of the evaluator: shrink until every constraint holds as computed, circle by circle.
    for shrink in np.linspace(0, 1e-9, 2001):
        r = np.maximum(rows[:, 2] - shrink, 0)
        if valid(rows[:, 0], rows[:, 1], r):
            assert value <= r.sum() + n * 1e-12
            return
    raise AssertionError("accepted, but not valid even when shrunk by the tolerance")


def valid(x: np.ndarray, y: np.ndarray, r: np.ndarray) -> bool:
    rounding = 1e-15
    for i in range(len(r)):
        if min(x[i], y[i], 1 - x[i], 1 - y[i]) < r[i] - rounding:
            return False
        for j in range(i):
            if math.dist((x[i], y[i]), (x[j], y[j])) < r[i] + r[j] - rounding:
                return False
    return True


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(0.5, 0.5, math.nan)], "must be finite, not nan"),
        ([(math.nan, 0.5, 0.1)], "must be finite, not nan"),
        ([(0.5, 0.5, math.inf)], "must be finite, not inf"),
        ([(0.5, 0.5, -0.1)], "negative radius -0.1"),
        ([(0.5, 0.5, -1e-300)], "negative radius"),
        ([(0.95, 0.5, 0.1)], "reach outside the unit square"),
        ([(1.5, 0.5, 0.0)], "the centre of circle 0 lies outside"),
        ([(0.5, 0.5, 1e300)], "no circle above 0.5 fits"),
        ([(1e300, 0.5, 0.1)], "the centre of circle 0 lies outside"),
        ([(0.5, 0.5, 10**400)], "an integer of 1329 bits"),
        ([(0.5, 0.5, 10**5000)], "bits"),
        ([(0.5, 0.5, True)], "must be a number, not True"),
        ([(0.5, 0.5, "0.1")], "must be a number, not the text '0.1'"),
        ([(0.5, 0.5)], "must have 3 entries, not 2"),
        ([(0.5, 0.5, 0.1)] * 2, "must have 1 entries, not 2"),
        ([], "must have 1 entries, not 0"),
        (None, "not be None"),
        ("circles", "not be the text 'circles'"),
        (2.6358, "not be the number 2.6358"),
        (np.array([[0.5, 0.5, 0.1]], dtype=object), "type object"),
        (np.array([[0.5, 0.5, 0.1]], dtype=complex), "type complex128"),
        (np.array([["0.5", "0.5", "0.1"]]), "type str"),
        (np.zeros((1, 3, 1)), "shape (1, 3), not (1, 3, 1)"),
    ],
)
def test_what_is_no_packing_is_refused_in_words(rows: Any, says: str) -> None:
    assert says in refusal(rows, 1)


def test_overlap_names_the_worst_pair() -> None:
    message = refusal([(0.3, 0.5, 0.2), (0.6, 0.5, 0.2), (0.9, 0.5, 0.05)], 3)
    assert message.startswith("circles overlap (1 of 3 pairs); the worst are circle 0")
    assert message.endswith("by 0.1")


def test_equal_centres_with_zero_radii_are_a_packing_of_nothing() -> None:
    assert score([(0.5, 0.5, 0.0)] * 3) == 0.0


@given(
    st.lists(
        st.lists(st.floats() | st.integers() | st.booleans() | st.none() | st.text(max_size=3), max_size=4),
        max_size=4,
    )
    | st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=3)
)
def test_no_answer_makes_the_evaluator_raise_anything_but_candidate_error(rows: Any) -> None:
    try:
        value = score(rows, 3)
    except CandidateError:
        return
    assert 0.0 <= value <= math.sqrt(3 / math.pi)


def test_more_than_one_instance_is_refused_with_a_remedy(build_task: Callable[..., Problem]) -> None:
    with pytest.raises(ProblemError, match="num_train cannot be 3; give 0 or 1"):
        build_task(TASK, num_train=3)


def test_no_split_is_held_out(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK, test_seed=5)
    assert [e.id for e in (*problem.train, *problem.validate, *problem.test)] == ["train-0", "validate-0"]


def test_a_candidate_that_rebinds_numpy_changes_no_score(build_task: Callable[..., Problem]) -> None:
    problem = build_task(TASK)
    template = str(problem.parameters[0].value)
    cheat = template + "\nnp.sum = np.max = lambda *a, **k: 999.0\nmath.fsum = lambda values: 999.0\n"
    cheated, *_ = problem.guide(None, cheat, problem.train[0].reference)
    honest, *_ = problem.guide(None, template, problem.train[0].reference)
    assert cheated == honest == pytest.approx(26 / 12)
