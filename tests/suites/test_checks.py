"""What comes back from a candidate is hostile: it is checked data afterwards, or the candidate's failure."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trace_bench.suites import checks
from trace_bench.worker.problem import CandidateError

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63, max_value=2**70)
    | st.just(10**400)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=80)
    | st.binary(max_size=80)
)
arrays = st.sampled_from(
    ["bool", "int8", "uint64", "float16", "float64", "longdouble", "complex128", "U3", "S3", "M8[s]", "m8[s]"]
).flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
objects = hnp.arrays(object, hnp.array_shapes(max_dims=2, max_side=3), elements=scalars)
hostile = st.recursive(
    scalars | arrays | objects,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)

CHECKS: list[Callable[[Any], Any]] = [
    lambda v: checks.real(v, "v", low=-5, high=5),
    lambda v: checks.integer(v, "v", low=-5, high=5),
    lambda v: checks.integers(v, "v", length=2, low=-5, high=5),
    lambda v: checks.integers(v, "v", low=-5, high=5),
    lambda v: checks.sequence(v, "v", longest=3),
    lambda v: checks.text(v, "v", longest=5),
    lambda v: checks.float_array(v, "v", shape=(2, 3)),
    lambda v: checks.float_array(v, "v", shape=(1,), infinite=True),
    lambda v: checks.float_array(v, "v", shape=()),
]


@given(value=hostile)
def test_a_check_returns_or_raises_candidate_error_and_nothing_else(value: Any) -> None:
    for check in CHECKS:
        try:
            check(value)
        except CandidateError as error:
            assert error.phase == "output"
            assert len(error.message) < 300


@given(value=hostile)
def test_what_passes_is_what_was_asked_for(value: Any) -> None:
    try:
        array = checks.float_array(value, "v", shape=(2,))
    except CandidateError:
        return
    assert array.dtype == np.float64
    assert array.shape == (2,)
    assert np.isfinite(array).all()


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2.0, 3], [4, 5, 6]],
        ((1, 2, 3), (4, 5, 6)),
        [np.array([1.0, 2, 3]), [4, 5, 6]],
        [[np.float64(1), np.int32(2), np.array(3.0)], [4, 5, 6]],
        np.array([[1, 2, 3], [4, 5, 6]], dtype=np.uint8),
        np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float16),
        np.asfortranarray(np.array([[1.0, 2, 3], [4, 5, 6]])),
    ],
)
def test_numbers_in_any_honest_form_are_taken(value: Any) -> None:
    array = checks.float_array(value, "v", shape=(2, 3))
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([True, 1.0], r"v\[0\] must be a number, not True"),
        (np.array([True, False]), "real numbers, not an array of shape (2,) and type bool"),
        (np.array([1j, 2]), "complex128"),
        (np.array([1, "x"], dtype=object), "type object"),
        (["1", "2"], r"v\[0\] must be a number, not the text '1'"),
        ("12", "must have shape (2,), not be the text '12'"),
        ([1.0, math.nan], r"v\[1\] must be finite, not nan"),
        (np.array([np.inf, 1]), r"v\[0\] must be finite, not inf"),
        ([1.0, 10**400], "an integer of 1329 bits"),
        ([1.0], "must have 2 entries, not 1"),
        (np.zeros((2, 1)), "must have shape (2,), not (2, 1)"),
        (np.array([1e4000, 1], dtype=np.longdouble), r"v\[0\] must be finite"),
        (None, "not be None"),
        ({"a": 1}, "a dict of length 1"),
    ],
)
def test_refusals_name_the_place_and_the_fault(value: Any, says: str) -> None:
    with pytest.raises(CandidateError) as caught:
        checks.float_array(value, "v", shape=(2,))
    assert says.replace("\\", "") in caught.value.message


def test_infinities_and_nan_pass_only_where_they_are_allowed() -> None:
    assert checks.float_array([math.inf, -math.inf], "v", shape=(2,), infinite=True)[0] == math.inf
    with pytest.raises(CandidateError, match="must be a number, not nan"):
        checks.float_array([math.inf, math.nan], "v", shape=(2,), infinite=True)
    assert math.isnan(checks.float_array([math.inf, math.nan], "v", shape=(2,), nan=True)[1])
    with pytest.raises(CandidateError, match="must have 3 entries"):
        checks.float_array([math.nan] * 2, "v", shape=(3,), nan=True)


def test_a_float64_array_is_not_copied() -> None:
    value = np.arange(3.0)
    assert np.shares_memory(checks.float_array(value, "v", shape=(3,)), value)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, np.bool_(True), np.float64(1), 6, -1, [1], (10**5000,)])
def test_an_integer_is_an_int_within_bounds(value: Any) -> None:
    with pytest.raises(CandidateError):
        checks.integer(value, "v", low=0, high=5)


def test_an_integer_too_long_to_print_is_refused_in_a_short_sentence() -> None:
    with pytest.raises(CandidateError, match=r"v must be within 0 \.\. 5, not an integer of 16610 bits"):
        checks.integer(10**5000, "v", low=0, high=5)


def test_integers_of_numpy_are_integers() -> None:
    assert checks.integers(np.array([1, 2]), "v", low=0, high=5) == [1, 2]
    assert type(checks.integer(np.int64(3), "v", low=0, high=5)) is int


def test_lengths_are_checked_before_a_huge_answer_is_walked() -> None:
    with pytest.raises(CandidateError, match="must have 2 entries, not 5000000"):
        checks.float_array([None] * 5_000_000, "v", shape=(2,))


def test_checks_of_plain_values_need_no_numpy() -> None:
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None  # any import of it fails\n"
        "from trace_bench.suites import checks, task_folder, code_task\n"
        "checks.integers([1, 2], 'v', low=0, high=2), checks.real(0.5, 'v'), checks.text('a', 'v', longest=1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
