"""A state is evaluated on an example once: the memo in memory, and in real processes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.worker.host import Outcome
from tests.worker.support import run
from tests.worker.test_checkpoint import ASKING, CLIMB, answers, told, trained, without_seconds
from trace_bench.worker.evaluate import failed
from trace_bench.worker.memo import ROLLOUT_BYTES, Memo
from trace_bench.worker.problem import CandidateError, Example, Problem
from trace_bench.worker.training import Rollout, StopTraining


class Context:
    """Evaluates by counting; each rollout has a number of its own."""

    def __init__(self, allowed: int = 1000, *, transient: bool = False) -> None:
        self.deterministic = True
        self.allowed, self.evaluations, self.saved = allowed, 0, 0
        self.transient = transient
        self.made: list[tuple[Any, str, int]] = []
        self.stop = False

    def check(self) -> None:
        if self.stop:
            raise StopTraining("interrupted")

    def count_evaluations(self, number: int) -> None:
        if self.evaluations + number > self.allowed:
            raise StopTraining("budget")
        self.evaluations += number

    def count_saved(self, number: int) -> None:
        self.saved += number

    def evaluate(self, state: Mapping[str, Any], example_indices: Sequence[int], split: str) -> list[Rollout]:
        self.check()
        self.count_evaluations(len(example_indices))
        self.made += [(state["x"], split, index) for index in example_indices]
        return [
            Rollout(str(index), float(len(self.made)), "feedback", transient=self.transient)
            for index in example_indices
        ]


def test_a_known_state_on_a_known_example_is_neither_evaluated_nor_counted() -> None:
    context = Context()
    memo = Memo(context)  # type: ignore[arg-type]
    first = memo.evaluate({"x": 1.0}, [0, 1, 0], "train")
    assert [r.example_id for r in first] == ["0", "1", "0"] and first[0] is first[2]
    assert memo.evaluate({"x": 1.0}, [2, 1], "train")[1] is first[1]
    assert context.made == [(1.0, "train", 0), (1.0, "train", 1), (1.0, "train", 2)]
    assert (context.evaluations, context.saved) == (3, 2)
    assert memo.knows({"x": 1.0}, 2, "train") and not memo.knows({"x": 1.0}, 2, "validate")


@pytest.mark.parametrize("other", [({"x": 1}, 0, "train"), ({"x": 1.0}, 1, "train"), ({"x": 1.0}, 0, "validate")])
def test_another_state_example_or_split_is_another_evaluation(other: tuple[dict[str, Any], int, str]) -> None:
    context = Context()
    memo = Memo(context)  # type: ignore[arg-type]
    memo.evaluate({"x": 1.0}, [0], "train")
    assert not memo.knows(*other)
    memo.evaluate(other[0], [other[1]], other[2])
    assert (context.evaluations, context.saved) == (2, 0)


def test_what_is_known_can_be_had_when_the_budget_is_used_up_but_not_after_a_stop() -> None:
    context = Context(allowed=1)
    memo = Memo(context)  # type: ignore[arg-type]
    memo.evaluate({"x": 1.0}, [0], "train")
    memo.evaluate({"x": 1.0}, [0], "train")
    with pytest.raises(StopTraining, match="budget"):
        memo.evaluate({"x": 1.0}, [0, 1], "train")
    assert (context.evaluations, context.saved) == (1, 1)
    context.stop = True
    with pytest.raises(StopTraining, match="interrupted"):
        memo.evaluate({"x": 1.0}, [0], "train")


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_may_come_out_otherwise_is_evaluated_and_counted_again(deterministic: bool) -> None:
    context = Context(transient=deterministic)
    context.deterministic = deterministic
    memo = Memo(context)  # type: ignore[arg-type]
    scores = [memo.evaluate({"x": 1.0}, [0], "train")[0].score for _ in range(3)]
    assert scores == [1.0, 2.0, 3.0] and (context.evaluations, context.saved) == (3, 0)


@pytest.mark.parametrize(
    ("phase", "transient"),
    [("timeout", True), ("memory", True), ("died", True), ("compile", False), ("call", False), ("output", False)],
)
def test_a_failure_that_may_not_happen_again_is_marked(phase: str, transient: bool) -> None:
    problem = Problem((), lambda *_: (0.0, ""), (), "", "maximize", -1.0)
    assert failed(problem, Example("a"), CandidateError(phase, "it is so")).transient is transient


def test_the_least_recently_used_rollouts_make_room() -> None:
    context = Context()
    size = ROLLOUT_BYTES + len("feedback")
    memo = Memo(context, limit=3 * size)  # type: ignore[arg-type]
    memo.evaluate({"x": 1.0}, [0, 1, 2], "train")
    memo.evaluate({"x": 1.0}, [0], "train")  # used; 1 is the oldest now
    memo.evaluate({"x": 1.0}, [3], "train")
    assert [memo.knows({"x": 1.0}, index, "train") for index in range(4)] == [True, False, True, True]
    memo.evaluate({"x": 1.0}, [1], "train")
    assert context.made[-1] == (1.0, "train", 1) and context.evaluations == 5


def test_an_evaluation_through_a_graph_is_counted_once_and_kept() -> None:
    context = Context()
    memo = Memo(context)  # type: ignore[arg-type]
    rollout = Rollout("0", 7.0, "through the graph")
    for _ in range(2):
        memo.count({"x": 1.0}, 0, "train")
        memo.keep({"x": 1.0}, 0, "train", rollout)
    assert memo.evaluate({"x": 1.0}, [0], "train") == [rollout]
    assert (context.evaluations, context.saved, context.made) == (1, 2, [])


# -- in real processes -----------------------------------------------------------------------------------------------

MEMO = {"memo": True}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A search that evaluates the start, and then each of four states twice, on two examples."""
    return run(tmp_path_factory.mktemp("whole"), CLIMB, over=MEMO)


def counts(outcome: Outcome) -> tuple[int, int | None]:
    assert outcome.result is not None and outcome.result["status"] == "ok", outcome.stderr
    return outcome.result["evaluations"], outcome.result["evaluations_saved"]


def test_a_job_pays_once_and_says_what_it_saved(whole: Outcome, tmp_path: Path) -> None:
    assert counts(whole) == (10, 8) and trained(whole) == 10
    assert [line["evaluations"] for line in whole.history] == [2, 4, 6, 8, 10]
    without = run(tmp_path, CLIMB)
    assert counts(without) == (18, None) and trained(without) == 18
    lines = [
        [{k: v for k, v in line.items() if k != "evaluations"} for line in without_seconds(o)] for o in (whole, without)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("known", range(6))
def test_an_attempt_that_goes_on_decides_and_counts_as_one_that_was_not_interrupted(
    whole: Outcome, tmp_path: Path, known: int
) -> None:
    again = run(tmp_path, CLIMB, checkpoint=whole.checkpoint[:known], over=MEMO)
    assert len(whole.checkpoint) == 5
    assert counts(again) == counts(whole) and without_seconds(again) == without_seconds(whole)
    assert trained(again) == 10 - 2 * known


def test_a_budget_is_of_what_is_evaluated(tmp_path: Path) -> None:
    outcome = run(tmp_path, CLIMB, over={**MEMO, "budget": {"evaluations": 7}})
    assert outcome.result is not None and outcome.result["stop_reason"] == "budget"
    assert [line["step"] for line in outcome.history] == [0, 1, 2] and counts(outcome) == (6, 4)


NOISY = {"asks a model": "x = float(ask('how much?'))", "draws": "import random; x = random.random()"}


@pytest.mark.parametrize("how", NOISY)
def test_a_task_whose_evaluations_ask_a_model_or_draw_has_each_of_them_made(tmp_path: Path, how: str) -> None:
    code = f"""
    def build(context):
        def guide(query, response, reference):
            print("evaluated", flush=True)
            {NOISY[how]}
            return x, "off"
        return problem(guide, train=examples(["a", "b"]))
    """
    outcome = run(tmp_path, ASKING + CLIMB.replace("\ndef build", "\ndef unused") + "\n" + textwrap.dedent(code),
                  over=MEMO, answer=answers)  # fmt: skip
    assert counts(outcome) == (18, 0)
    assert len(told(outcome, "checkpoint.ended")) == 1


def test_a_trainer_that_is_killed_has_saved_what_it_said_last(tmp_path: Path) -> None:
    code = CLIMB + "            if i == 2: os._exit(1)\n"
    outcome = run(tmp_path, code, over=MEMO)
    assert outcome.result is not None and outcome.result["status"] == "failed"
    assert (outcome.result["evaluations"], outcome.result["evaluations_saved"]) == (6, 4)
