"""Whatever a program answers to a scheduling task is a schedule or the program's own failure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import task_of
from trace_bench.worker.problem import CandidateError

SMALL: dict[str, dict[str, int]] = {
    "jssp_construct": {"n_jobs": 3, "n_machines": 2},
    "co_bench/aircraft_landing_co_bench": {"n_planes": 4},
    "co_bench/common_due_date_scheduling_co_bench": {"n_jobs": 4},
    "co_bench/crew_scheduling_co_bench": {"n_tasks": 6},
    "co_bench/flow_shop_scheduling_co_bench": {"n_jobs": 4, "n_machines": 3},
    "co_bench/hybrid_reentrant_shop_scheduling_co_bench": {"n_jobs": 4, "n_machines": 2},
    "co_bench/job_shop_scheduling_co_bench": {"n_jobs": 3, "n_machines": 2},
    "co_bench/open_shop_scheduling_co_bench": {"n_jobs": 3},
}
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 6),
    st.sampled_from([10**400, -(2**63), 2**64]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=2),
    st.sampled_from([np.int64(1), np.float32(2.5), np.array(1), np.array([0, 1]), np.zeros((2, 2)), np.array(["a"])]),
)
KEYS = st.sampled_from(["permutation", "batch_assignment", "landing_times", "runways", "x", 1])
ANSWERS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@pytest.mark.parametrize("name", SMALL)
@given(answer=ANSWERS)
def test_an_answer_of_any_kind_is_scored_or_refused(name: str, answer: Any) -> None:
    one = task_of(f"llm4ad:optimization/{name}")
    instance = one.instance(**SMALL[name])
    try:
        score = one.play(lambda *_: answer, instance)
    except CandidateError as error:
        assert error.phase == "output" and 10 < len(error.message) < 1000
    else:
        assert math.isfinite(score) and score <= one.judge.worst([instance])


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_draws_the_same_instance_and_another_another(name: str) -> None:
    one = task_of(f"llm4ad:optimization/{name}")
    assert repr(one.instance(5)) == repr(one.instance(5)) != repr(one.instance(6))
