"""What a search learns from evaluations is told to the host; given back, it is not evaluated again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.host import Outcome
from tests.worker.support import run
from trace_bench.artifacts.outputs import CheckpointLine

CLIMB = """
def build(context):
    def guide(query, response, reference):
        print("evaluated", response, query, flush=True)
        return -abs(float(response) - 3.0), "off"
    return problem(guide, train=examples(["a", "b"]))

class Trainer:
    uses_graph = False
    def search(self, search):
        for i in range(1, 5):
            state = {"x": i / 2}
            rollouts = [*search.evaluate(state, [0, 1], "train"), *search.evaluate(state, [0, 1], "train")]
            yield Step(i, f"c{i}", ("seed",), state, tuple(rollouts), "train")
"""
ASKING = """
import json, urllib.request

def ask(text, slot=None):
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""


def answers(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
    reply = {"choices": [{"message": {"role": "assistant", "content": "1.5"}}]}
    return 200, json.dumps(reply).encode(), {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost_usd": 0.5}}


def evaluated(outcome: Outcome) -> int:
    """Evaluations that really ran, in training and scoring."""
    return outcome.log.count("evaluated")


def without_seconds(outcome: Outcome) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in outcome.history]


def told(outcome: Outcome, kind: str) -> list[dict[str, Any]]:
    return [event for event in outcome.events if event["event"] == kind]


def trained(outcome: Outcome) -> int:
    """Evaluations in training: all but those of the scorer, which are of three states on two examples at most."""
    scored = {json.dumps(s, sort_keys=True) for s in outcome.states.values()}
    return evaluated(outcome) - 2 * len(scored)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The search when nothing happens to it."""
    outcome = run(tmp_path_factory.mktemp("whole"), CLIMB)
    assert outcome.result is not None and outcome.result["status"] == "ok", outcome.stderr
    return outcome


def test_every_evaluation_is_told_to_the_host_in_a_form_that_it_takes(whole: Outcome) -> None:
    lines = [CheckpointLine.model_validate(line) for line in whole.checkpoint]
    assert len(lines) == 9, "the start, and each of four states twice"
    assert [line.nth for line in lines] == [0, 0, 1, 0, 1, 0, 1, 0, 1]
    assert [line.seconds for line in lines] == sorted(line.seconds for line in lines)
    assert trained(whole) == 18


@pytest.mark.parametrize("known", [1, 4, 9])
def test_what_is_known_is_not_evaluated_again_and_the_history_is_whole(
    whole: Outcome, tmp_path: Path, known: int
) -> None:
    again = run(tmp_path, CLIMB, checkpoint=whole.checkpoint[:known])
    assert without_seconds(again) == without_seconds(whole)
    assert trained(again) == 2 * (9 - known)
    assert len(again.checkpoint) == 9 - known, "what was known before is not told again"
    assert again.result is not None and whole.result is not None
    assert again.result["scores"] == whole.result["scores"]
    assert again.result["evaluations"] == whole.result["evaluations"]
    (resumed,) = told(again, "search.resumed")
    assert (resumed["evaluations"], resumed["llm_calls"]) == (2 * known, 0)
    assert told(whole, "search.resumed") == []


def test_time_that_is_known_to_have_passed_is_not_passed_again(whole: Outcome, tmp_path: Path) -> None:
    known = [{**line, "seconds": 100.0 * (i + 1)} for i, line in enumerate(whole.checkpoint[:5])]
    again = run(tmp_path, CLIMB, checkpoint=known, over={"budget": {"seconds": 510.0}})
    seconds = [line["seconds"] for line in again.history]
    assert seconds[:3] == [100.0, 300.0, 500.0], "a step has the time that it had"
    assert 500.0 < seconds[3] <= seconds[4] < 510.0
    assert again.result is not None and again.result["stop_reason"] == "completed"
    used_up = run(tmp_path, CLIMB, checkpoint=known, over={"budget": {"seconds": 400.0}})
    assert used_up.result is not None and used_up.result["stop_reason"] == "budget"
    assert [line["step"] for line in used_up.history[:3]] == [0, 1, 2], "all that was learnt counts"


def test_a_budget_of_evaluations_spans_attempts(whole: Outcome, tmp_path: Path) -> None:
    again = run(tmp_path, CLIMB, checkpoint=whole.checkpoint[:6], over={"budget": {"evaluations": 13}})
    assert again.result is not None
    assert (again.result["stop_reason"], again.result["evaluations"]) == ("budget", 10 + 2)
    assert [line["step"] for line in again.history] == [0, 1, 2]


DAMAGE: dict[str, dict[str, Any]] = {
    "another example": {"rollouts": [{"example_id": "z", "score": 1.0, "feedback": "", "failed": False}] * 2},
    "no number": {"rollouts": [{"example_id": "a", "score": "1", "feedback": "", "failed": False}] * 2},
    "not finite": {"rollouts": [{"example_id": "a", "score": float("inf"), "feedback": "", "failed": False}] * 2},
    "no text": {"rollouts": [{"example_id": "a", "score": 1.0, "feedback": "", "response": 7}] * 2},
    "no rollout": {"rollouts": [{"score": 1.0}, 5]},
    "no list": {"rollouts": 7},
    "deep": {"rollouts": json.loads("[" * 900 + "]" * 900)},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_line_that_is_none_is_evaluated_again(whole: Outcome, tmp_path: Path, damage: str) -> None:
    first, second, *_ = whole.checkpoint
    again = run(tmp_path, CLIMB, checkpoint=[first, {**second, **DAMAGE[damage]}])
    assert without_seconds(again) == without_seconds(whole)
    assert trained(again) == 16
    assert again.result is not None
    assert any("damaged" in w for w in again.result["warnings"]) == (damage != "another example")


NOT_KEPT = {
    "an evaluation asked a model": "x = float(ask('how much?'))",
    "an evaluation drew from the global generators": "import random; x = random.random()",
}


@pytest.mark.parametrize("reason", NOT_KEPT)
def test_what_cannot_be_known_by_its_question_alone_is_not_kept_nor_anything_after_it(
    tmp_path: Path, reason: str
) -> None:
    code = f"""
    def build(context):
        seen = []
        def guide(query, response, reference):
            seen.append(query)
            if len(seen) == 5:
                {NOT_KEPT[reason]}
            return -abs(float(response) - 3.0), "off"
        return problem(guide, train=examples(["a", "b"]))
    """
    climb = CLIMB[CLIMB.index("class Trainer") :]
    outcome = run(tmp_path, ASKING + "\n".join(line[4:] for line in code.splitlines()) + "\n" + climb, answer=answers)
    assert outcome.result is not None and outcome.result["status"] == "ok", outcome.log
    assert len(outcome.checkpoint) == 2
    (ended,) = told(outcome, "checkpoint.ended")
    assert ended["reason"] == reason


def test_what_the_search_itself_asks_a_model_does_not_end_the_checkpoint(tmp_path: Path) -> None:
    code = CLIMB.replace(
        'state = {"x": i / 2}',
        'search.chat([{"role": "user", "content": "x"}], slot=Slot(i, "c")); state = {"x": i / 2}',
    )
    first = run(tmp_path, code, answer=answers)
    assert len(first.requests) == 4 and len(first.checkpoint) == 9 and told(first, "checkpoint.ended") == []
    again = run(tmp_path, code, answer=answers, checkpoint=first.checkpoint[:5])
    assert without_seconds(again) == without_seconds(first)
    (resumed,) = told(again, "search.resumed")
    assert (resumed["evaluations"], resumed["llm_calls"]) == (10, 3)


def test_a_checkpoint_that_grows_too_large_ends_and_the_search_does_not(tmp_path: Path) -> None:
    code = CLIMB.replace('"off"', '"off" * 400_000').replace("range(1, 5)", "range(1, 2)")
    outcome = run(tmp_path, code)
    assert outcome.result is not None and outcome.result["status"] == "ok", outcome.result
    assert outcome.checkpoint == []
    assert "has more than" in told(outcome, "checkpoint.ended")[0]["reason"]


@pytest.mark.parametrize(
    "line", ["5", "None", "{}", "'x' * (2 << 20)", "'a\\nb'", "'\\ud800'", "float('nan')"], ids=lambda line: line[:12]
)
def test_a_trainer_that_sends_what_is_no_line_harms_nobody_but_itself(tmp_path: Path, line: str) -> None:
    code = f"""
    class Trainer(Trainer):
        def train(self, problem, params, context):
            context._link.send("checkpoint", line={line})
            context._link.send("resumed")
            return problem.initial_state()
    """
    outcome = run(tmp_path, code)
    assert outcome.result is not None and outcome.code == 0
    if outcome.result["status"] == "failed":
        assert outcome.result["failure"]["boundary"] == "trainer"
    assert outcome.checkpoint == []
