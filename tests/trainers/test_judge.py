"""LLMJudge words what the optimizer is told, scores nothing, and is paid like any other call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import DECIDE_BROKEN, Call, greeting, numeric, seeded
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.guides import GUIDES
from trace_bench.trainers.priority_search import PrioritySearch

KWARGS = {param.name: param.default for param in GUIDES["LLMJudge"]}


def judged(answer: str = "Go further up.") -> Any:
    """A model that judges with `answer` and proposes at random."""

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.candidate == "judge":
            return answer
        return seeded(1)(messages, slot, variables) if variables[0]["kind"] == "float" else "TERMINATE"

    return model


def split(calls: list[Call]) -> tuple[list[Call], list[Call]]:
    """Judgements, and asks for proposals."""
    judgements = [call for call in calls if call.slot.candidate == "judge"]
    return judgements, [call for call in calls if call not in judgements]


def test_the_optimizer_is_told_what_the_judge_says_and_scores_stay_the_tasks(context: Any) -> None:
    plain = context(numeric(train=2), seeded(1))
    memory = context(numeric(train=2), judged(), guide="LLMJudge", guide_kwargs=KWARGS)
    for one in (plain, memory):
        one.search(PrioritySearch, num_steps=2, train_batch_size=2)
    judgements, asks = split(memory.calls)
    assert len(judgements) == 2 * (1 + 2)  # two examples: the start, then two explored candidates
    assert len({str(call.slot) for call in judgements}) == len(judgements)
    assert all("Go further up." in ask.prompt and "too low" not in ask.prompt for ask in asks)
    assert [(s.state, [r.score for r in s.rollouts]) for s in memory.steps] == [
        (s.state, [r.score for r in s.rollouts]) for s in plain.steps
    ]
    first = judgements[0].prompt
    assert "Find the number." in first and "-3" in first and "0 is too low" in first


def test_a_judge_sees_the_response_of_an_agent_and_an_error_needs_no_judge(context: Any) -> None:
    memory = context(greeting(), judged(), guide="LLMJudge", guide_kwargs=KWARGS)
    memory.search(PrioritySearch, num_steps=1, num_proposals=1, train_batch_size=2)
    judgements, _ = split(memory.calls)
    told = [call.prompt for call in judgements]
    assert any("Hello Ana" in prompt and "A reference:\nHola Ana" in prompt for prompt in told)
    broken = context(greeting(decide=DECIDE_BROKEN), judged(), guide="LLMJudge", guide_kwargs=KWARGS)
    broken.search(PrioritySearch, num_steps=1, num_proposals=1, train_batch_size=2)
    judgements, asks = split(broken.calls)
    assert judgements == [] and "no idea about" in asks[0].prompt


@pytest.mark.parametrize(
    ("argument", "value", "differs"),
    [
        ("instruction", "Mind the sign.", lambda call: call.prompt.endswith("Mind the sign.")),
        ("show_reference", False, lambda call: "A reference" not in call.prompt),
        ("max_tokens", 7, lambda call: call.request["max_tokens"] == 7),
    ],
)
def test_every_argument_changes_what_the_judge_is_asked(argument: str, value: Any, differs: Any, context: Any) -> None:
    assert argument in KWARGS and len(KWARGS) == 3
    memory = context(greeting(), judged(), guide="LLMJudge", guide_kwargs={**KWARGS, argument: value})
    memory.search(PrioritySearch, num_steps=1, num_proposals=1)
    assert differs(split(memory.calls)[0][0])
    default = context(greeting(), judged(), guide="LLMJudge", guide_kwargs=KWARGS)
    default.search(PrioritySearch, num_steps=1, num_proposals=1)
    assert not differs(split(default.calls)[0][0])


def test_a_judge_that_says_nothing_is_an_event_and_the_tasks_feedback_stays(context: Any) -> None:
    memory = context(numeric(), judged("  "), guide="LLMJudge", guide_kwargs=KWARGS)
    memory.search(PrioritySearch, num_steps=1)
    (told,) = memory.told("judge.unusable")
    assert (told["kind"], told["reason"]) == ("empty", "the message is empty")
    assert "too low" in split(memory.calls)[1][0].prompt


def test_judgements_count_as_calls(context: Any) -> None:
    memory = context(numeric(), judged(), guide="LLMJudge", guide_kwargs=KWARGS, budget=Budget(calls=2))
    memory.search(PrioritySearch)
    assert (memory.stop_reason, len(memory.calls)) == ("budget", 2)
