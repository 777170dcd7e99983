"""What holds for every optimizer: it finds an optimum, alike on all threads; bad answers cost a proposal."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.trainers.answering import ANSWERS, answering, form_of, honest, written
from tests.trainers.memory_context import DECIDE_BROKEN, DECIDE_RIGHT, GREET_RIGHT, MemoryContext, greeting
from trace_bench.trainers.base import Slot, StopTraining
from trace_bench.trainers.optimizers import OPTIMIZERS
from trace_bench.trainers.proposer import Ask, Proposer
from trace_bench.worker.problem import Example, Parameter, Problem

ALL = pytest.mark.parametrize("optimizer", OPTIMIZERS)


def numeric(train: int = 1, kind: str = "float") -> Problem:
    """As `memory_context.numeric`, and the feedback says how far off a guess is."""

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        side = "low" if response < 3 else "high"
        return -abs(response - 3.0), f"{response:g} is too {side} by {abs(response - 3.0):g}"

    return Problem(
        parameters=(Parameter("x", 0, kind, description="the guess", bounds=(-10.0, 10.0)),),  # type: ignore[arg-type]
        guide=guide,
        train=tuple(Example(f"t{i}") for i in range(train)),
        objective="Find the number.",
        direction="maximize",
        failure_score=-100.0,
    )


def gaussian(slot: Slot, variable: Mapping[str, Any]) -> float:
    return float(min(max(variable["value"] + random.Random(str(slot)).gauss(0, 2), -10.0), 10.0))


def history(context: MemoryContext) -> list[Any]:
    return [(s.step, s.candidate, s.parents, s.state, s.rollouts, s.split, s.extra) for s in context.steps]


@ALL
def test_an_honest_model_finds_the_optimum(context: Any, optimizer: str) -> None:
    memory = context(numeric(), honest, optimizer=optimizer)
    best = memory.search(num_steps=8, num_candidates=1, num_proposals=1)
    assert best["x"] == pytest.approx(3.0, abs=0.05)
    assert memory.events_of("proposal.") == []


@ALL
def test_histories_prompts_and_events_are_alike_with_any_number_of_threads(context: Any, optimizer: str) -> None:
    def sometimes_bad(slot: Slot, variable: Mapping[str, Any]) -> Any:
        return "nonsense" if random.Random(f"bad/{slot}").random() < 0.4 else gaussian(slot, variable)

    runs = []
    for threads in (1, 4):
        memory = context(numeric(train=3), answering(sometimes_bad), optimizer=optimizer)
        memory.search(num_steps=3, num_candidates=2, num_proposals=3, train_batch_size=2, num_threads=threads)
        runs.append(memory)
    one, four = runs
    assert history(one) == history(four) and len(one.steps) > 3
    assert [s.calls for s in one.steps] == [s.calls for s in four.steps]
    assert one.events == four.events and one.events_of("proposal.rejected")
    by_slot = [{str(c.slot): (c.messages, c.request) for c in memory.calls} for memory in runs]
    assert by_slot[0] == by_slot[1]
    assert len(by_slot[0]) == len(one.calls), "each call has a slot of its own"


@ALL
def test_an_agent_of_two_operators_is_learned_and_its_errors_reach_the_model(context: Any, optimizer: str) -> None:
    told = []

    def suggest(slot: Slot, variable: Mapping[str, Any]) -> str:
        return {"decide0": DECIDE_RIGHT, "greet0": GREET_RIGHT}[variable["name"]]

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        told.append("\n".join(m["content"] for m in messages))
        return answering(suggest)(messages, slot, variables)

    memory = context(greeting(decide=DECIDE_BROKEN), model, optimizer=optimizer)
    best = memory.search(num_steps=2, num_candidates=1, num_proposals=1, train_batch_size=2)
    assert best == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    assert [s.score for s in memory.steps] == [0.0, 0.5, 1.0]
    assert memory.steps[0].rollouts[0].failed
    assert "no idea about" in told[0]
    assert memory.events_of("proposal.") == []


BAD: dict[str, tuple[str, str]] = {
    "an essay": ("I think that the guess should be larger. " * 200, "proposal.unusable"),
    "half an answer": ('{"suggestion": {"x0": 1', "proposal.unusable"),
    "half a tag": ("<variable><name>x0</name><value>1", "proposal.unusable"),
    "half an improvement": ("<IMPROVED_VARIABLE>1", "proposal.unusable"),
    "a megabyte": ("x" * (1 << 20), "proposal.unusable"),
    "nothing": ("", "proposal.unusable"),
    "a refusal": ("TERMINATE", "proposal.terminate"),
}


@ALL
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_answer_costs_a_proposal_and_is_told_with_its_slot(context: Any, optimizer: str, kind: str) -> None:
    text, event = BAD[kind]

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return "a criticism" if form_of(variables) == "text" else text

    memory = context(numeric(), model, optimizer=optimizer)
    assert memory.search(num_steps=2, num_candidates=1, num_proposals=1) == {"x": 0}
    asked = [str(c.slot) for c in memory.calls if form_of(c.variables) != "text"]
    told = memory.told(event)
    assert [e["slot"] for e in told] == asked and len(asked) >= 2
    assert all(e.get("reason", "said nothing") for e in told)
    assert [s.candidate for s in memory.steps] == ["seed"] and memory.stop_reason == "completed"


@ALL
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(answer=ANSWERS)
def test_any_answer_ends_in_an_admitted_state_or_in_events(context: Any, optimizer: str, answer: str) -> None:
    memory = context(numeric(kind="int"), lambda messages, slot, variables: answer, optimizer=optimizer)
    proposer = Proposer(memory.problem, memory)
    ask = Ask(proposer.explore({"x": 0}, [0]).prompt, Slot(1, "c0"))  # type: ignore[arg-type]
    proposal = proposer.propose(ask)
    (state,) = proposer.proposals([ask])
    assert state == proposal.state
    if state is None:
        assert proposal.events
    else:
        assert state.keys() == {"x"} and type(state["x"]) is int and -10 <= state["x"] <= 10


@ALL
@pytest.mark.parametrize(
    ("value", "event"),
    [
        ("no number", "proposal.rejected"),
        (99, "proposal.rejected"),
        ("nan", "proposal.rejected"),
        ("1e999", "proposal.rejected"),
        (0, "proposal.dropped"),
    ],
)
def test_a_bad_value_is_told_and_changes_nothing(context: Any, optimizer: str, value: Any, event: str) -> None:
    memory = context(numeric(kind="int"), answering(lambda slot, variable: value), optimizer=optimizer)
    assert memory.search(num_steps=1, num_candidates=1, num_proposals=1) == {"x": 0}
    told = memory.told(event)
    assert told and all(e["slot"].startswith("step=1;candidate=c0;proposal=0") for e in told)
    assert all(e["reason"] for e in told)


@pytest.mark.parametrize("optimizer", ["OptoPrime", "OptoPrimeMulti", "OPRO", "OptoPrimeV2", "OPROv2"])
def test_names_of_no_variable_are_told(context: Any, optimizer: str) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return written(form_of(variables), {"score0": 1, "x\ud800": 2})

    memory = context(numeric(), model, optimizer=optimizer)
    memory.search(num_steps=1, num_candidates=1, num_proposals=1)
    assert memory.told("proposal.unknown_variables")[0]["names"] == ["score0", "x\\ud800"]


@ALL
def test_text_with_the_letters_def_and_words_like_true_is_taken_as_it_is(context: Any, optimizer: str) -> None:
    """trace-opt formats what holds "def" as Python or drops it, and guesses types of values."""
    values = ["please define: the default is [2] or False", "False", "[2]", "TERMINATE is a word", "7"]
    problem = Problem(
        parameters=(Parameter("t", "", "text"),),
        guide=lambda query, response, reference: (float(len(response)), "longer"),
        train=(Example("e"),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
    )
    memory = context(
        problem, answering(lambda slot, variable: values[slot.step - 1]), optimizer=optimizer,
        optimizer_kwargs={"num_responses": 1} if optimizer == "OptoPrimeMulti" else {},
    )  # fmt: skip
    memory.search(num_steps=len(values), num_candidates=1, num_proposals=1)
    assert [s.state["t"] for s in memory.steps[1:]] == values


@ALL
def test_source_that_does_not_compile_is_a_candidate_that_fails_and_says_why(context: Any, optimizer: str) -> None:
    memory = context(greeting(), answering(lambda slot, variable: "def decide(:\n"), optimizer=optimizer)
    memory.search(num_steps=1, num_candidates=1, num_proposals=1)
    (step,) = memory.steps[1:]
    assert step.score == 0.0 and all(r.failed for r in step.rollouts)
    assert "SyntaxError" in step.rollouts[0].feedback


@ALL
def test_one_proposal_may_change_several_variables(context: Any, optimizer: str) -> None:
    new = {"decide0": DECIDE_RIGHT, "greet0": GREET_RIGHT}
    memory = context(greeting(), answering(lambda slot, variable: new[variable["name"]]), optimizer=optimizer)
    best = memory.search(num_steps=1, num_candidates=1, num_proposals=1)
    assert best == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}


@pytest.mark.parametrize("optimizer", ["TextGrad", "OptoPrimeV2", "OPROv2"])
@pytest.mark.parametrize(
    "start", ["def decide(query):\n    return 'en'", "\n\ndef decide(query):\n    return 'en'\n \n"]
)
def test_source_that_comes_back_between_tags_is_unchanged(context: Any, optimizer: str, start: str) -> None:
    model = answering(lambda slot, variable: variable["value"].strip())
    memory = context(greeting(decide=start), model, optimizer=optimizer)
    memory.search(num_steps=1, num_candidates=1, num_proposals=1)
    assert [e["reason"] for e in memory.told("proposal.dropped")] == ["unchanged"]


@ALL
def test_a_stop_in_the_middle_of_a_proposal_ends_the_search_in_order(context: Any, optimizer: str) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.step == 2 and (slot.attempt == 1 or optimizer not in ("TextGrad", "OptoPrimeMulti")):
            raise StopTraining("budget")
        return answering(gaussian)(messages, slot, variables)

    for threads in (1, 4):
        memory = context(numeric(), model, optimizer=optimizer)
        memory.search(num_steps=3, num_candidates=1, num_proposals=2, num_threads=threads)
        assert memory.stop_reason == "budget"
        assert {s.step for s in memory.steps} == {0, 1}


ARGUMENTS: dict[tuple[str, str], Any] = {
    **{(name, "memory_size"): 2 for name in OPTIMIZERS},
    **{(name, "max_tokens"): 77 for name in OPTIMIZERS},
    **{(name, "objective"): "Do it well." for name in OPTIMIZERS},
    **{(name, "temperature"): 0.25 for name in OPTIMIZERS},
    ("OPROv2", "memory_size"): 1,
    ("OPRO", "memory_order"): "time",
    ("OPROv2", "memory_order"): "score",
    ("OptoPrimeV2", "max_value_chars"): 10,
    ("OPROv2", "max_value_chars"): 10,
    ("OptoPrimeMulti", "num_responses"): 2,
    ("OptoPrimeMulti", "generation_technique"): "self_refinement",
    ("OptoPrimeMulti", "selection_technique"): "last",
    ("OptoPrimeMulti", "max_temperature"): 0.5,
    ("OptoPrimeMulti", "min_temperature"): 0.5,
}


@pytest.mark.parametrize(
    ("optimizer", "argument"), [(name, p.name) for name, params in OPTIMIZERS.items() for p in params]
)
def test_each_argument_changes_what_is_asked(context: Any, optimizer: str, argument: str) -> None:
    asked = []
    for kwargs in ({}, {argument: ARGUMENTS[optimizer, argument]}):
        memory = context(texts(), answering(letters), optimizer=optimizer, optimizer_kwargs=kwargs)
        memory.search(num_steps=5, num_candidates=3, num_proposals=1)
        asked.append([json.dumps([c.messages, c.request, str(c.slot)]) for c in memory.calls])
    assert asked[0] != asked[1]


def letters(slot: Slot, variable: Mapping[str, Any]) -> str:
    return random.Random(str(slot)).choice("abcdef") * (20 + random.Random(f"n/{slot}").randrange(20))


def texts() -> Problem:
    """Text, and a long input."""
    return Problem(
        parameters=(Parameter("t", "a", "text"),),
        guide=lambda query, response, reference: (float(len(response)), "longer"),
        train=(Example("e", "y" * 50),),
        objective="Write much.",
        direction="maximize",
        failure_score=0.0,
        agent=lambda ops, query: ops.apply(_join, ops.param("t"), query),
    )


def _join(text: str, query: str) -> str:
    """Joins."""
    return text + query
