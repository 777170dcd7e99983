"""What training claims against what the scorer found: when the two differ, when they cannot be compared."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.artifacts.samples import HASH, META, RESULT, RESULTS
from trace_bench.artifacts import schema
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import IntegrityReport, JobMeta, Results
from trace_bench.execution.attempt_outcome import AttemptOutcome, record_attempt
from trace_bench.records.integrity import FLAGS, flag_counts, flags_of, flags_sentence, integrity_report
from trace_bench.records.rows import results_row
from trace_bench.worker.evaluate import mean_score
from trace_bench.worker.training import Rollout

PAGE = Path(__file__).parents[2] / "docs" / "design" / "integrity.md"
numbers = st.floats(allow_nan=False, allow_infinity=False)
many_scores = st.lists(numbers, min_size=1, max_size=8)
tolerances = st.sampled_from([0.0, 1e-12, 1e-9, 1e-3, 0.5])


def claim(score: float, *examples: str, split: str = "validate") -> dict[str, Any]:
    return {"score": score, "split": split, "examples": list(examples)}


def scored(*scores: float, split: str = "validate") -> dict[str, Any]:
    return {"examples": [{"split": split, "id": f"v{n}", "score": score} for n, score in enumerate(scores)]}


def result(**integrity: Any) -> WorkerResult:
    scores = {"initial": scored(-3.0), "best": scored(-0.5, 1.5), "final": scored(-0.5, 1.5)}
    return WorkerResult.model_validate({**RESULT, "scores": scores, "integrity": integrity})


def report(*scores: float, said: float, over: list[int] | None = None, **options: Any) -> IntegrityReport:
    """Of one claim of the best state, over the examples at these places."""
    places = range(len(scores)) if over is None else over
    best = claim(said, *(f"v{place}" for place in places))
    both = {"scores": {"best": scored(*scores)}, "integrity": {"claims": {"best": best}}}
    return integrity_report(WorkerResult.model_validate({**RESULT, **both}), **options)


# ------------------------------------------------------------------------------------------------- the comparison


@given(many_scores, st.data(), tolerances)
def test_what_the_scorer_would_say_of_the_same_examples_is_no_difference(
    scores: list[float], data: st.DataObject, tolerance: float
) -> None:
    over = data.draw(st.lists(st.integers(0, len(scores) - 1), min_size=1, max_size=8))
    said = mean_score([Rollout(str(place), scores[place], "") for place in over])
    if not math.isfinite(said):
        return  # no trainer can claim it
    got = report(*scores, said=said, over=over, tolerance=tolerance)
    assert got.flags == () and math.isfinite(got.found["best"])


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8), st.data(), tolerances)
def test_what_the_tolerance_allows_each_example_is_no_difference(
    scores: list[float], data: st.DataObject, tolerance: float
) -> None:
    moves = data.draw(st.lists(st.floats(-1, 1), min_size=len(scores), max_size=len(scores)))
    # Within the tolerance of the larger of the two, as the task declares it.
    moved = [score * (1 + move * tolerance * 0.999) for score, move in zip(scores, moves, strict=True)]
    said = mean_score([Rollout("", score, "") for score in moved])
    assert report(*scores, said=said, tolerance=tolerance).flags == ()


@given(many_scores, st.sampled_from([0.0, 1e-12, 1e-9, 1e-3]), st.sampled_from([-1, 1]))
def test_what_no_tolerance_allows_is_a_difference(scores: list[float], tolerance: float, sign: int) -> None:
    size = float(sum(Fraction(abs(score)) for score in scores) / len(scores))
    found = report(*scores, said=0.0).found["best"]
    said = found + sign * max(size * (2 * tolerance + 1e-12), 1e-300)
    if math.isfinite(said) and said != found:
        assert report(*scores, said=said, tolerance=tolerance).flags == ("claim_differs",)


def test_scores_that_cancel_do_not_make_a_difference_of_rounding() -> None:
    assert report(1e6, -1e6, 1e-3, said=3.333e-4, tolerance=1e-9).flags == ()
    assert report(1.0, -1.0, 1e-3, said=3.4e-4, tolerance=1e-9).flags == ("claim_differs",)


def test_adding_up_in_another_order_is_no_difference() -> None:
    scores = [0.1, 0.2, 0.3]
    assert math.fsum(scores) != sum(scores)
    assert report(*scores, said=math.fsum(scores) / 3, tolerance=0.0).flags == ()


def test_small_scores_are_compared_too() -> None:
    assert report(1e-12, said=2e-12).flags == ("claim_differs",)
    assert report(0.0, said=0.0, tolerance=0.0).flags == ()


def test_an_integer_claimed_otherwise_differs_without_a_tolerance() -> None:
    assert report(3.0, 4.0, said=3.5, tolerance=0.0).flags == ()
    assert report(3.0, 4.0, said=3.5000001, tolerance=0.0).flags == ("claim_differs",)


def test_huge_scores_end_in_no_infinity() -> None:
    got = report(1.7e308, -1.7e308, said=-1.7e308, over=[0, 0])
    assert got.flags == ("claim_differs",) and got.found["best"] == 1.7e308
    schema.validate("job_meta", json.loads(JobMeta.model_validate({**META, "integrity_report": got}).model_dump_json()))


# ------------------------------------------------------------------------------------------- what can be compared


def test_examples_count_as_often_as_they_were_tried() -> None:
    assert report(0.0, 3.0, said=2.0, over=[0, 1, 1]).found == {"best": 2.0}
    assert report(0.0, 3.0, said=1.5, over=[0, 1, 1]).flags == ("claim_differs",)


@pytest.mark.parametrize(
    "said",
    [
        claim(9.0, "v0", split="train"),
        claim(9.0, "v0", "v7"),
        claim(9.0),
        claim(9.0, "v0", split="test"),
    ],
)
def test_a_claim_over_what_was_not_scored_has_nothing_found_and_flags_nothing(said: dict[str, Any]) -> None:
    got = integrity_report(result(claims={"best": said}))
    assert (got.found, got.flags) == ({}, ()) and got.claims["best"].score == 9.0


def test_a_claim_on_a_state_that_was_not_scored_flags_nothing() -> None:
    unscored = result(claims={"final": claim(9.0, "v0")}).model_copy(update={"scores": RESULT_WITHOUT_FINAL})
    assert integrity_report(unscored).found == {}


RESULT_WITHOUT_FINAL = WorkerResult.model_validate({**RESULT, "scores": {"initial": scored(1.0)}}).scores


def test_all_three_states_are_compared() -> None:
    claims = {"initial": claim(-3.0, "v0"), "best": claim(0.5, "v0", "v1"), "final": claim(1.0, "v0", "v1")}
    got = integrity_report(result(claims=claims))
    assert got.found == {"initial": -3.0, "best": 0.5, "final": 0.5} and got.flags == ("claim_differs",)
    assert integrity_report(result(claims={**claims, "final": claims["best"]})).flags == ()
    assert integrity_report(result(claims={**claims, "initial": claim(1.0, "v0")})).flags == ("claim_differs",)


def written(tmp_path: Path, outcome: AttemptOutcome, **change: Any) -> tuple[JobMeta, Results]:
    """What the controller records of `outcome`."""
    meta = JobMeta.model_validate({**META, "attempts": [], "status": "running", **change})
    run = RunLayout(tmp_path / meta.run_id)
    job = run.job(meta.job_id).make()
    row = record_attempt(run, job, 1, meta, outcome, Usage(), 1.0)
    return JobMeta.model_validate_json(job.meta.read_bytes()), row


LIE = {"claims": {"best": claim(0.6, "v0", "v1")}}


@pytest.mark.parametrize(
    ("change", "usage", "flags"),
    [
        ({}, {}, "claim_differs"),
        ({"tolerance": 0.5}, {}, ""),
        ({"timing_sensitive": True}, {}, ""),
        ({}, {"train": Usage(calls=3)}, "claim_differs"),
        ({}, {"score": Usage(calls=1)}, ""),
        ({}, {"score": Usage(reused=1)}, ""),
    ],
    ids=["as declared", "a wide tolerance", "timing", "training asked a model", "scoring did", "from the cassette"],
)
def test_only_what_must_come_out_the_same_is_flagged(
    tmp_path: Path, change: dict[str, Any], usage: dict[str, Usage], flags: str
) -> None:
    meta, row = written(tmp_path, AttemptOutcome(result=result(**LIE), usage_by_phase=usage), **change)
    assert row.integrity_flags == flags and row.score_claimed == 0.6 and row.score_best is None
    assert meta.integrity_report.found == {"best": 0.5}, "it is recorded in any case"


# ------------------------------------------------------------------------------------------------ the other flags

FILES = {"files": 3, "sha256": HASH, "unchanged": True}
SIGN = {"kind": "files", "line": 2, "text": "open('/proc/self/mem')"}


@pytest.mark.parametrize(
    ("integrity", "flag"),
    [
        (LIE, "claim_differs"),
        ({"signs": {"best": [SIGN]}}, "suspicious_source"),
        ({"candidates": {"train": {"opened": 9}, "score": {"opened": 3, "left_processes": 1}}}, "left_processes"),
        ({"candidates": {"train": {"opened": 9, "unswept": 1}}}, "unswept"),
        ({"scorer_files": {**FILES, "unchanged": False}}, "scorer_changed"),
        ({"signs": {"best": []}, "candidates": {"train": {"over_cpu": 2}}, "scorer_files": FILES}, None),
    ],
)
def test_each_flag_has_its_reason(integrity: dict[str, Any], flag: str | None) -> None:
    assert integrity_report(result(**integrity)).flags == ((flag,) if flag else ())


def test_every_flag_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for flag, meaning in FLAGS.items():
        assert f"| `{flag}` | {meaning} |" in text, flag
    assert integrity_report(None) == IntegrityReport()


@pytest.mark.parametrize("kind", ["scorer_changed", "not_recorded"])
def test_scores_that_are_withheld_are_in_no_row(kind: str) -> None:
    """Whatever the sandbox wrote."""
    failure = {"boundary": "harness", "kind": kind, "message": "x"}
    meta = JobMeta.model_validate(
        {**META, "status": "failed", "failure": failure, "integrity_report": {"claims": LIE["claims"]}}
    )
    row = results_row(meta, result(), Usage(), 1.0, RunLayout(Path("r")))
    assert {getattr(row, name) for name in Results.model_fields if name.startswith("score_")} == {
        None,
        "maximize",
        0,
    }, "score_evaluations says how much was scored, not what came of it"


def test_a_changed_scorer_withholds_the_scores_even_if_the_job_says_that_it_is_well(tmp_path: Path) -> None:
    changed = {"scorer_files": {**FILES, "unchanged": False}, **LIE}
    _, row = written(tmp_path, AttemptOutcome(result=result(**changed)))
    assert "scorer_changed" in row.integrity_flags
    assert (row.score_initial, row.score_best, row.score_claimed, row.feedback) == (None, None, None, "")


def test_flags_are_counted_and_told_in_one_sentence() -> None:
    rows = [
        Results.model_validate({**RESULTS, "job_id": f"{n:012x}", "integrity_flags": flags})
        for n, flags in enumerate(["", "unswept claim_differs", "claim_differs", "of_a_later_version claim_differs"])
    ]
    assert flags_of(rows[1]) == ["claim_differs", "unswept"]
    assert flag_counts(rows) == {"claim_differs": 3, "unswept": 1, "of_a_later_version": 1}
    assert flags_sentence(rows[:1]) == "" and flags_sentence(rows[2:3]).startswith("!: 1 job is flagged (1 claim_diff")
    assert flags_sentence(rows).startswith(
        "!: 3 jobs are flagged (3 claim_differs, 1 unswept, 1 of_a_later_version): look at the job before you quote"
    )
