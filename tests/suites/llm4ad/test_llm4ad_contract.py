"""What every task of the suite must keep, on instances small enough to try all answers and on answers by hand.

The tables are in the files of the families of tasks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.suites.llm4ad import (
    test_llm4ad_assignment,
    test_llm4ad_covering,
    test_llm4ad_crews,
    test_llm4ad_due_dates,
    test_llm4ad_location,
    test_llm4ad_shops,
)
from tests.suites.llm4ad.contract import Case, program
from trace_bench.suites.data_files import DataError

CASES: list[Case] = [
    *test_llm4ad_assignment.CASES,
    *test_llm4ad_covering.CASES,
    *test_llm4ad_crews.CASES,
    *test_llm4ad_due_dates.CASES,
    *test_llm4ad_location.CASES,
    *test_llm4ad_shops.CASES,
]
SLACK = 1e-9


def those(attribute: str) -> pytest.MarkDecorator:
    cases = [case for case in CASES if getattr(case, attribute)]
    return pytest.mark.parametrize("case", cases, ids=[case.task.rpartition("/")[2] for case in cases])


@those("scores")
def test_no_answer_beats_the_bound_or_a_failure_and_the_reference_is_close_to_the_best(case: Case) -> None:
    one = case.one()
    sign = 1.0 if one.spec.score.direction == "minimize" else -1.0
    for seed in range(case.seeds):
        small = case.small(seed)
        assert case.scores is not None
        scores = [sign * score for score in case.scores(one, small)]
        best, bound = min(scores), one.judge.best([small])
        slack = SLACK * (1 + abs(best))
        assert bound is not None and sign * bound <= best + slack, seed
        assert sign > 0 or not case.tight
        assert bound >= case.tight * best - slack, seed
        assert max(scores) <= sign * one.judge.worst([small]) + slack, seed
        found = sign * one.play(one.program("reference"), small)
        most = case.close * best if best > 0 else best / case.close
        assert best - slack <= found <= most + slack, seed


@those("hand")
def test_scores_are_those_computed_by_hand(case: Case) -> None:
    for instance, answer, score in case.hand:
        assert case.one().play(program(answer), case.given(instance)) == pytest.approx(score, rel=1e-9), answer


@those("refused")
def test_an_answer_that_breaks_a_rule_is_refused_and_the_place_is_named(case: Case) -> None:
    for instance, answer, words in case.refused:
        assert words in case.one().refusal(case.given(instance), program(answer)), answer


@those("moved")
def test_other_names_orders_and_units_change_the_score_as_they_should(case: Case) -> None:
    one, moved = case.one(), case.moved
    assert moved is not None
    sign = 1.0 if one.spec.score.direction == "minimize" else -1.0
    for seed in range(4):
        old = one.instance(seed, **case.drawn)
        solution = one.module.answer(one.program("template"), old)
        new, again, factor = moved(one, old, solution, np.random.default_rng(seed))
        score = one.verdict(old, solution).score
        assert one.verdict(new, again).score == pytest.approx(factor * score, rel=1e-9), seed
        bounds = [one.judge.best([i]) for i in (old, new)]
        assert bounds[0] is not None and bounds[1] is not None
        for instance, bound, scored in zip((old, new), bounds, (score, factor * score), strict=True):
            slack = SLACK * (1 + abs(scored))
            assert sign * bound - slack <= sign * scored <= sign * one.judge.worst([instance]) + slack, seed
        if case.same_bound:
            assert bounds[1] == pytest.approx(factor * bounds[0], rel=1e-5), seed


@those("read")
def test_published_files_are_read_and_can_be_solved(case: Case) -> None:
    one = case.one()
    for text, wanted in case.read:
        made = one.module.read(text, case.file)
        assert len(made) == len(wanted)
        for instance, values in zip(made, wanted, strict=True):
            for key, value in values.items():
                assert plain(instance[key]) == plain(value), key
    if case.solved:
        (first, *_) = one.module.read(case.read[0][0], case.file)
        low, high = sorted([one.judge.worst([first]), one.judge.best([first]) or 0.0])
        assert low - SLACK <= one.play(one.program("reference"), first) <= high + SLACK


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@those("unread")
def test_a_file_of_another_format_is_refused_and_the_place_is_named(case: Case) -> None:
    for text, words in case.unread:
        with pytest.raises(DataError) as caught:
            case.one().module.read(text, case.file)
        assert words in str(caught.value), text
