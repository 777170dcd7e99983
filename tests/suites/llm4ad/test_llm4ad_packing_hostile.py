"""What a program of a packing task may send back: anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import task_of
from trace_bench.worker.problem import CandidateError

SMALL: dict[str, dict[str, Any]] = {
    "circle_packing": {"n": 2},
    "online_bin_packing_local": {"n_items": 3},
    "optimization/online_bin_packing": {"n_items": 3},
    "optimization/online_bin_packing_2O": {"n_items": 3},
    "optimization/bp_1d_construct": {"n_items": 3},
    "optimization/bp_2d_construct": {"n_items": 3},
    "optimization/knapsack_construct": {"n_items": 3},
    "optimization/admissible_set": {"dimension": 3, "weight": 1},
    "optimization/co_bench/bp_1d_co_bench": {"n_items": 4},
}
ARRAYS = [
    np.zeros(2), np.array([[0, 1], [1, 0]]), np.array([0, 1]), np.float64(0.5), np.int64(1), np.array(2), np.True_,
    np.zeros((0, 3)), np.array([np.nan, 1.0]), np.array([1j]), np.array(["a"]), np.array([2**63], dtype=np.uint64),
]  # fmt: skip
leaves = (
    st.sampled_from([None, True, 10**400, "", "ab", 2**62])
    | st.integers(-1, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from(ARRAYS)
)
answers = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner)
        | st.dictionaries(st.text(max_size=1), inner, max_size=2)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", sorted(SMALL))
@given(seed=st.integers(0, 5), sent=st.lists(answers, min_size=1, max_size=3))
def test_every_answer_is_a_solution_with_a_fair_score_or_the_candidates_failure(
    name: str, seed: int, sent: list[Any]
) -> None:
    one = task_of(f"llm4ad:{name}")
    instance = one.instance(seed, **SMALL[name])
    turns = iter(range(10_000))
    try:
        score, feedback, metrics = one.judge.evaluate(lambda *_: sent[next(turns) % len(sent)], instance)  # type: ignore[arg-type]
    except CandidateError as error:
        assert error.score == one.judge.worst([instance]) and len(error.message) < 1000
        return
    low, high = sorted((one.judge.worst([instance]), one.judge.best([instance]) or 0.0))
    assert low <= score <= high and feedback and 0 <= metrics["normalised"] <= 1 + 1e-9
