"""Metrics give the numbers of the official scripts; see ``official/README.md`` for where these come from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from trace_bench.suites.hf.metrics import drop, judge

OFFICIAL = Path(__file__).parent / "official"


def rows(kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (OFFICIAL / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(found) >= 200
    return found


@pytest.mark.parametrize("kind", ["span", "musique", "qasper"])
def test_overlap_of_words_is_that_of_the_official_script(kind: str) -> None:
    for row in rows(kind):
        judgement = judge(kind, row["prediction"], row["gold"])
        assert judgement.metrics["f1"] == pytest.approx(row["f1"], abs=1e-12), row
        assert judgement.metrics["exact"] == row.get("exact", judgement.metrics["exact"]), row
        assert judgement.score == judgement.metrics["f1"]


def test_drop_of_given_spans_is_that_of_the_official_script() -> None:
    for row in rows("drop"):
        answers = [answer for answer in row["gold"]["answers"] if answer[0].strip()]
        numbers = [drop.exact_and_f1(row["prediction"], answer) for answer in answers]
        assert max((exact for exact, _ in numbers), default=0.0) == row["exact"], row
        assert max((f1 for _, f1 in numbers), default=0.0) == row["f1"], row


def test_drop_of_a_response_is_no_less_than_that_of_the_spans_it_lists() -> None:
    for row in rows("drop"):
        if all("\n" not in span and span.strip() not in ("", "answer") for span in row["prediction"]):
            response = "\n".join(row["prediction"])
            judgement = judge("drop", response, row["gold"])
            assert judgement.score >= row["f1"] and judgement.metrics["exact"] >= row["exact"], row


def test_bbeh_is_that_of_the_official_script_but_for_a_full_stop_of_the_right_answer() -> None:
    for row in rows("bbeh"):
        score = judge("bbeh", row["prediction"], row["gold"]).score
        if row["gold"]["answer"].endswith("."):
            assert score >= row["exact"], row
        else:
            assert score == row["exact"], row


def test_a_number_that_the_official_script_or_the_harness_finds_right_is_right() -> None:
    found = rows("number")
    accepted = [row for row in found if row["strict"] or row["flexible"]]
    assert sum(row["strict"] for row in found) >= 20 and len(accepted) >= 100
    for row in accepted:
        assert judge("number", row["prediction"], row["gold"]).score == 1.0, row


MORE = re.compile(r"\.0|/2|because 5 of 6|eggs\nThat took 3")
"""Forms that only our rule accepts: decimals, fractions, and further numbers after an explicit answer."""


def test_a_number_that_both_references_reject_is_wrong_unless_its_form_is_the_reason() -> None:
    rejected = [row for row in rows("number") if not row["strict"] and not row["flexible"]]
    plain = [row for row in rejected if not MORE.search(row["prediction"])]
    assert len(plain) >= 40
    for row in plain:
        assert judge("number", row["prediction"], row["gold"]).score == 0.0, row
