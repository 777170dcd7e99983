"""POLCA: the epsilon-net keeps near children out, and the summary reaches the prompts of the next proposals."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.trainers.memory_context import MemoryContext, greeting, numeric, seeded, suggest
from tests.trainers.test_priority_family import behaviour, spread
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget, Slot, StopTraining
from trace_bench.trainers.polca import POLCA
from trace_bench.trainers.priority_search import PrioritySearch
from trace_bench.trainers.summarizer import HEADING, MAX_TRAJECTORIES
from trace_bench.worker.phases import PhaseFailure


def on_a_line(text: str) -> list[float]:
    """The number itself as a vector: distances are differences."""
    found = re.fullmatch(r"x: (.*)", text)
    assert found
    return [float(found.group(1)), 0.0]


def answers(*values: float) -> Any:
    return lambda messages, slot, variables: suggest(x0=values[slot.proposal])


def dropped(memory: MemoryContext) -> list[tuple[str, str, float]]:
    return [(d["candidate"], d["same_as"], d["distance"]) for d in memory.told("proposal.dropped")]


def test_children_near_to_the_net_or_to_a_farther_child_are_dropped_before_they_cost_anything(context: Any) -> None:
    """From 0 with epsilon 1: 5 is farthest and joins, then 2.5; 2 is 0.5 from 2.5, 0.75 is near the start, 4 is
    1 from 5, which is not more than epsilon."""
    memory = context(numeric(train=2), answers(2.0, 0.75, 5.0, 2.5, 4.0), vectors=on_a_line)
    memory.search(
        POLCA, num_steps=1, num_candidates=1, num_proposals=5, epsilon=1.0, embedding_model="job", train_batch_size=2
    )
    assert [(s.candidate, s.state["x"], s.accepted) for s in memory.steps[1:]] == [
        ("s1.c0.p2", 5.0, True), ("s1.c0.p3", 2.5, True),
    ]  # fmt: skip
    assert [s.extra["distance"] for s in memory.steps[1:]] == [5.0, 2.5]
    assert dropped(memory) == [
        ("s1.c0.p0", "s1.c0.p3", 0.5), ("s1.c0.p1", "seed", 0.75), ("s1.c0.p4", "s1.c0.p2", 1.0),
    ]  # fmt: skip
    assert memory.evaluations == 2 + 2 * 2, "the start, which the minibatch needs as well; two children"
    assert memory.told("search.step")[0]["children"] == ["s1.c0.p2", "s1.c0.p3"]


def test_the_net_is_what_memories_hold_and_each_text_is_embedded_once(context: Any) -> None:
    """The second step's children are compared with the first one's; the third step has none that is new to anybody."""
    script = {1: (5.0, -5.0), 2: (4.5, 2.0), 3: (1.5, 2.5)}
    memory = context(
        numeric(), lambda messages, slot, variables: suggest(x0=script[slot.step][slot.proposal]), vectors=on_a_line
    )
    memory.search(POLCA, num_steps=3, num_candidates=1, num_proposals=2, epsilon=1.0, embedding_model="job")
    assert [str(slot) for slot, _ in memory.embedded] == [
        f"step={n};candidate=embedding;proposal=0;attempt=0" for n in (1, 2, 3)
    ]
    assert [texts for _, texts in memory.embedded] == [
        ("x: 0.0", "x: 5.0", "x: -5.0"), ("x: 4.5", "x: 2.0"), ("x: 1.5", "x: 2.5"),
    ]  # fmt: skip
    assert dropped(memory) == [
        ("s2.c0.p0", "s1.c0.p0", 0.5), ("s3.c0.p0", "s2.c0.p1", 0.5), ("s3.c0.p1", "s2.c0.p1", 0.5),
    ]  # fmt: skip


def test_what_a_memory_has_forgotten_is_no_longer_in_the_net(context: Any) -> None:
    script = {1: (8.0, 2.0), 2: (7.5, 7.5)}
    memory = context(
        numeric(), lambda messages, slot, variables: suggest(x0=script[slot.step][slot.proposal]), vectors=on_a_line
    )
    memory.search(POLCA, num_steps=2, num_candidates=1, epsilon=1.0, embedding_model="job", long_term_memory_size=1)
    assert [s.state["x"] for s in memory.steps] == [0.0, 8.0, 2.0, 7.5]


def test_trigrams_take_no_call_and_tell_a_changed_word_from_another_program(context: Any) -> None:
    problem = greeting()
    code = str(problem.initial_state()["greet"])
    other = 'def greet(lang, name):\n    word = {"es": "Hola", "en": "Hello"}[lang]\n    return f"{word} {name}"\n'

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(greet0=(code.replace("Hello ", "Hello  "), other)[slot.proposal])

    memory = context(problem, model)
    memory.search(POLCA, num_steps=1, num_candidates=1, epsilon=0.2)
    assert memory.embedded == []
    assert [s.candidate for s in memory.steps] == ["seed", "s1.c0.p1"]
    assert [(d["reason"], d["same_as"]) for d in memory.told("proposal.dropped")] == [("near", "seed")]


def test_without_filter_and_summarizer_it_is_priority_search(context: Any) -> None:
    runs = []
    for trainer, params in ((POLCA, {"epsilon": 0.0}), (PrioritySearch, {})):
        memory = context(spread(validate=2), seeded(1))
        memory.search(trainer, num_steps=5, num_candidates=3, **params)
        runs.append(behaviour(memory))
    assert runs[0] == runs[1]


def test_embeddings_that_do_not_compare_end_the_search_with_a_sentence(context: Any) -> None:
    memory = context(numeric(), answers(1.0, 2.25), vectors=lambda text: [1.0] * len(text))
    with pytest.raises(TrainerError, match=r"different lengths; set embedding_model to none\.$"):
        memory.search(POLCA, num_steps=2, embedding_model="job")


def test_a_model_without_embeddings_fails_with_the_remedy_and_a_stop_passes(context: Any) -> None:
    def refused(text: str) -> list[float]:
        raise PhaseFailure("provider", "provider_error", "HTTP 400: no such thing")

    def spent(text: str) -> list[float]:
        raise StopTraining("budget")

    memory = context(numeric(), answers(1.0, 2.0), vectors=refused)
    with pytest.raises(PhaseFailure, match=r"^HTTP 400: no such thing \(POLCA .* embedding_model none .*\)$") as raised:
        memory.search(POLCA, embedding_model="job")
    assert (raised.value.boundary, raised.value.kind) == ("provider", "provider_error")
    memory = context(numeric(), answers(1.0, 2.0), vectors=spent)
    assert memory.search(POLCA, embedding_model="job") == {"x": 0.0} and memory.stop_reason == "budget"


SUMMARY = "Numbers above 2 are too high. Try 1.5."


def with_summary(text: str = f"<reasoning>r</reasoning>\n<summary>\n{SUMMARY}\n</summary>") -> Any:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.candidate == "summary":
            return text.replace("STEP", str(slot.step))
        return suggest(x0=slot.step + slot.proposal / 4)

    return model


def prompts(memory: MemoryContext, step: int) -> list[str]:
    return [c.prompt for c in memory.calls if c.slot.step == step and c.slot.candidate != "summary"]


def summaries(memory: MemoryContext) -> list[Any]:
    return [c for c in memory.calls if c.slot.candidate == "summary"]


def test_the_summary_has_a_slot_of_its_own_and_its_text_is_in_the_next_prompts(context: Any) -> None:
    memory = context(spread(validate=2), with_summary())
    memory.search(POLCA, num_steps=3, num_candidates=1, use_summarizer=True)
    assert not any(HEADING in prompt for prompt in prompts(memory, 1)), "nobody had run on a training example yet"
    for step in (2, 3):
        assert prompts(memory, step) and all(f"{HEADING}\n{SUMMARY}\n" in prompt for prompt in prompts(memory, step))
        assert not any("<summary>" in prompt for prompt in prompts(memory, step))
    asked = summaries(memory)
    assert [str(c.slot) for c in asked] == [f"step={n};candidate=summary;proposal=0;attempt=0" for n in (2, 3)]
    assert asked[0].variables == [] and asked[0].request == {"max_tokens": 4096}
    assert "There is none yet." in asked[0].prompt and SUMMARY in asked[1].prompt
    told = memory.told("search.summary")
    assert [(t["step"], t["about"], t["text"]) for t in told] == [
        (2, ["seed"], SUMMARY), (3, memory.told("search.step")[1]["explored"], SUMMARY),
    ]  # fmt: skip


def test_a_summary_is_about_training_examples_with_the_best_and_the_worst_of_each(context: Any) -> None:
    """Without validation data children are scored on training data: the start has five rollouts before step 1."""
    memory = context(spread(train=5), with_summary())
    memory.search(POLCA, num_steps=1, num_candidates=1, use_summarizer=True)
    asked = summaries(memory)[0].prompt
    assert "x: 0.0" in asked and "Find the number." in asked
    assert "Input: number 0?\nScore: -1 (maximize it)\nFeedback: 0 is too low" in asked
    assert "Input: number 4?\nScore: -5 (maximize it)" in asked and "number 2?" not in asked
    with_validation = context(spread(train=2, validate=7), with_summary())
    with_validation.search(POLCA, num_steps=4, use_summarizer=True)
    assert summaries(with_validation)
    for call in summaries(with_validation):
        assert "number 3?" not in call.prompt and "number 2?" not in call.prompt


def test_each_candidate_is_summed_up_once_and_at_most_five_at_a_time(context: Any) -> None:
    memory = context(
        spread(train=3),
        lambda m, slot, v: "<summary>s</summary>" if slot.candidate == "summary" else seeded(1)(m, slot, v),
    )
    memory.search(POLCA, num_steps=4, num_candidates=3, num_proposals=4, use_summarizer=True, epsilon=0.0)
    about = [t["about"] for t in memory.told("search.summary")]
    assert [len(names) for names in about] == [1, 4, 5, 5] and max(map(len, about)) == MAX_TRAJECTORIES
    assert len({name for names in about for name in names}) == sum(map(len, about))


def test_summaries_come_every_so_many_steps_and_stay_in_between(context: Any) -> None:
    memory = context(spread(train=3), with_summary("<summary>of step STEP.</summary>"))
    memory.search(POLCA, num_steps=5, num_candidates=1, use_summarizer=True, summary_frequency=2)
    assert [c.slot.step for c in summaries(memory)] == [1, 3, 5]
    for step, of in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 5)):
        assert all(f"of step {of}." in prompt for prompt in prompts(memory, step))


@pytest.mark.parametrize(
    ("text", "summary"),
    [("plain words", "plain words"), ("<summary> cut off", "cut off"), ("a <summary>b</summary> c", "b")],
)
def test_an_answer_is_read_as_far_as_it_goes(context: Any, text: str, summary: str) -> None:
    memory = context(spread(train=3), with_summary(text))
    memory.search(POLCA, num_steps=1, use_summarizer=True)
    assert memory.told("search.summary")[0]["text"] == summary


def test_an_answer_without_a_summary_is_an_event_and_the_one_before_stays(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return with_summary("<summary> </summary>" if slot.step == 2 else "<summary>first</summary>")(
            messages, slot, variables
        )

    memory = context(spread(train=3), model)
    memory.search(POLCA, num_steps=2, num_candidates=1, use_summarizer=True)
    (told,) = memory.told("summary.unusable")
    slot = "step=2;candidate=summary;proposal=0;attempt=0"
    assert told == {"slot": slot, "kind": "empty", "reason": "the answer holds no summary"}
    assert all(f"{HEADING}\nfirst\n" in prompt for prompt in prompts(memory, 2))


def test_a_summary_that_is_no_unicode_can_be_sent_on(context: Any) -> None:
    memory = context(spread(train=3), with_summary("<summary>a\ud800b</summary>"))
    memory.search(POLCA, num_steps=1, use_summarizer=True)
    assert [prompt.encode() for prompt in prompts(memory, 1)]


def test_a_summary_counts_as_a_call_of_the_budget(context: Any) -> None:
    memory = context(spread(train=3), with_summary(), budget=Budget(calls=3))
    memory.search(POLCA, num_steps=5, num_candidates=1, use_summarizer=True, epsilon=0.0)
    assert [c.slot.candidate for c in memory.calls] == ["summary", "c0", "c0"]
    assert memory.stop_reason == "budget" and len(memory.steps) == 3


def test_children_that_were_paid_for_are_judged_when_a_budget_ends_among_the_proposals(context: Any) -> None:
    memory = context(spread(train=3), seeded(1), budget=Budget(calls=3))
    memory.search(POLCA, num_proposals=5, epsilon=0.001)
    assert memory.stop_reason == "budget" and len(memory.calls) == 3
    assert [s.candidate for s in memory.steps] == ["seed", "s1.c0.p0", "s1.c0.p1", "s1.c0.p2"]
