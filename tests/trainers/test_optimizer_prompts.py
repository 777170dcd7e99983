"""What each optimizer asks, against graphs that were worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.trainers.answering import CRITICISM, answering, form_of, written
from tests.trainers.memory_context import DECIDE_BROKEN, MemoryContext, greeting, numeric, suggest
from trace_bench.trainers.base import Slot
from trace_bench.trainers.proposer import Ask, Proposer
from trace_bench.worker.problem import Example, Parameter, Problem

SLOT = Slot(1, "c0")
LONG = "y" * 5000


def proposer_of(context: Any, problem: Problem, optimizer: str, model: Any = None, **kwargs: Any) -> Any:
    """A proposer, and the context that keeps what it asks."""
    memory = context(problem, model or answering(lambda *_: 1), optimizer=optimizer, optimizer_kwargs=kwargs)
    return Proposer(problem, memory), memory


def asked(proposer: Proposer, memory: MemoryContext, state: Any, indices: Any = (0,), *args: Any, **more: Any) -> str:
    """The last message of the last call for one proposal for `state`."""
    prompt = proposer.explore(state, list(indices), *args, **more).prompt
    assert prompt is not None
    list(proposer.proposals([Ask(prompt, SLOT)]))
    return memory.calls[-1].prompt


def joined(text: str, query: str) -> str:
    """Joins."""
    return text + query


def with_long_input(value: str = "t") -> Problem:
    return Problem(
        parameters=(Parameter("text", value, "text"),),
        guide=lambda query, response, reference: (1.0, "fine"),
        train=(Example("e", LONG),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=lambda ops, query: ops.apply(joined, ops.param("text"), query),
    )


# -- OptoPrimeV2 and OPROv2 -----------------------------------------------------------------------------------------


def test_the_prompt_of_optoprimev2_is_the_graph_between_tags(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "OptoPrimeV2")
    assert asked(proposer, memory, {"x": 2.5}) == (
        "# Instruction\nFind the number.\n\n"
        "# Code\nscore0 = evaluate(x=x0)\n\n"
        "# Documentation\n[evaluate] Runs x on one example of the problem and scores it.\n\n"
        '# Variables\n<variable name="x0" type="float">\n<value>\n2.5\n</value>\n'
        "<constraint>\nthe guess; from -10 to 10, both included\n</constraint>\n</variable>\n\n"
        '# Outputs\n<node name="score0" type="float">\n<value>\n-0.5\n</value>\n</node>\n\n'
        "# Feedback\n(score -0.5, higher is better) 2.5 is too low\n\n"
        "Which values should these variables have: x0?\n"
    )
    (call,) = memory.calls
    assert call.request == {"max_tokens": 8192}  # nothing that would ask for JSON
    assert [v["format"] for v in call.variables] == ["tags"]


def test_long_values_are_clipped_and_variables_never_are(context: Any) -> None:
    for limit in (2000, 100):
        proposer, memory = proposer_of(context, with_long_input(), "OptoPrimeV2", max_value_chars=limit)
        user = asked(proposer, memory, {"text": "z" * 5000})
        assert "z" * 5000 in user
        assert "y" * limit in user and "y" * (limit + 1) not in user


def test_a_memory_of_ancestors_is_shown_between_tags(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "OptoPrimeV2", memory_size=1)
    first = proposer.explore({"x": 1.0}, [0]).prompt
    user = asked(proposer, memory, {"x": 2.0}, [0], first.past)
    told = '<round number="1">\n<variable>\n<name>x0</name>\n<value>\n1.0\n</value>\n</variable>\n<feedback>\n'
    assert f"# Past\n{told}(score -2, higher is better) 1 is too low\n</feedback>\n</round>" in user


def test_the_prompt_of_oprov2_is_the_solution_and_what_came_before_it(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "OPROv2", memory_size=2)
    for x in (9.0, 1.0, 2.0):
        user = asked(proposer, memory, {"x": x}, context="A hint.")
    past = [
        f'<round number="{n}">\n<variable>\n<name>x0</name>\n<value>\n{x}\n</value>\n</variable>\n<feedback>\n{said}'
        "\n</feedback>\n</round>"
        for n, x, said in (
            (1, 9.0, "(score -6, higher is better) 9 is too high"),
            (2, 1.0, "(score -2, higher is better) 1 is too low"),
        )
    ]
    assert user == (
        f"# Instruction\nFind the number.\n\n# Past\n{past[0]}\n{past[1]}\n\n"
        '# Solution\n<variable name="x0" type="float">\n<value>\n2.0\n</value>\n'
        "<constraint>\nthe guess; from -10 to 10, both included\n</constraint>\n</variable>\n\n"
        "# Feedback\n(score -1, higher is better) 2 is too low\n\n# Context\nA hint.\n\n"
        "Which values should these variables have: x0?\n"
    )


# -- OPRO -----------------------------------------------------------------------------------------------------------


def pairs(user: str) -> list[float]:
    """The values of x in the examples of OPRO's prompt, in order."""
    decoder, found, at = json.JSONDecoder(), [], user.index("{")
    while at >= 0:
        pair, end = decoder.raw_decode(user, at)
        found.append(pair["variables"]["x0"])
        at = user.find("{", end)
    return found


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_opro_shows_the_best_of_the_search_in_ascending_order_and_the_candidate_last(
    context: Any, direction: str
) -> None:
    proposer, memory = proposer_of(context, numeric(direction=direction), "OPRO", memory_size=4)
    shown = [pairs(asked(proposer, memory, {"x": x})) for x in (9.0, 2.0, -5.0, 4.0, 0.0)]
    # Distances to 3: 6, 1, 8, 1, 3. Of equal scores the later one counts as the better.
    assert shown == [[9.0], [9.0, 2.0], [9.0, 2.0, -5.0], [-5.0, 9.0, 2.0, 4.0], [9.0, 2.0, 4.0, 0.0]]


def test_opro_shows_the_latest_pairs_in_the_order_of_time_if_asked_to(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "OPRO", memory_size=2, memory_order="time")
    shown = [pairs(asked(proposer, memory, {"x": x})) for x in (9.0, 2.0, -5.0)]
    assert shown == [[9.0], [9.0, 2.0], [2.0, -5.0]]


def test_opro_shows_types_and_constraints_and_no_graph(context: Any) -> None:
    problem = greeting()
    proposer, memory = proposer_of(context, problem, "OPRO")
    user = asked(proposer, memory, problem.initial_state(), [0, 1], context="A hint.")
    assert "call_decide" not in user and "decide_result" not in user
    assert "Greet people in their language." in user and "A hint." in user
    assert "(code) greet0: The code should start with:\ndef greet(lang, name):" in user


def test_opro_shows_of_the_past_only_what_may_change(context: Any) -> None:
    problem = greeting()
    proposer, memory = proposer_of(context, problem, "OPRO")
    asked(proposer, memory, problem.initial_state())
    for name in ("greet", "decide"):
        user = asked(proposer, memory, problem.initial_state(), only=[name])
        assert user.count(f'"{name}0":') == len(memory.calls), "in each pair, whatever might change when it was seen"
        assert ("greet0" in user, "decide0" in user) == (name == "greet", name == "decide")


# -- TextGrad -------------------------------------------------------------------------------------------------------


def kinds(memory: MemoryContext) -> list[str]:
    """Of each call: the edge's lower end, ``merge``, or ``new NAME``."""
    found = []
    for call in memory.calls:
        system = call.messages[0]["content"]
        if call.variables:
            found.append(f"new {call.variables[0]['name']}")
        elif "aggregate" in system:
            found.append("merge")
        else:
            found.append(call.prompt.split("<ROLE> ")[1].split(" ")[0])
    return found


def test_textgrad_asks_about_each_edge_then_rewrites_each_variable(context: Any) -> None:
    problem = greeting()
    proposer, memory = proposer_of(context, problem, "TextGrad")
    asked(proposer, memory, problem.initial_state(), [0, 1])
    # query and name_of lie on no way from a variable, so nothing is asked about them.
    assert kinds(memory) == [
        "greet0", "decide_result1", "greet0", "decide_result0", "decide0", "decide0", "new decide0", "new greet0",
    ]  # fmt: skip
    assert [c.slot for c in memory.calls] == [Slot(1, "c0", 0, attempt) for attempt in range(8)]
    about_es, about_en = memory.calls[0].prompt, memory.calls[2].prompt
    for user, mine, other in ((about_es, "Hola Ana", "Hello Sam"), (about_en, "Hello Sam", "Hola Ana")):
        assert f"expected {mine}" in user and f"expected {other}" not in user
        assert "Greet people in their language." in user
    assert f"following feedback on the LM_OUTPUT: {CRITICISM}" in memory.calls[4].prompt
    rewrite = memory.calls[-1].prompt
    assert rewrite.count(f"<FEEDBACK>{CRITICISM}</FEEDBACK>") == 2
    assert "def greet(lang, name):\n    return" in rewrite.split("<VARIABLE>")[1].split("</VARIABLE>")[0]
    assert "<CONSTRAINTS>The code should start with:\ndef greet(lang, name):</CONSTRAINTS>" in rewrite


def test_textgrad_asks_only_about_edges_towards_what_may_change(context: Any) -> None:
    problem = greeting()
    proposer, memory = proposer_of(context, problem, "TextGrad")
    asked(proposer, memory, problem.initial_state(), [0], only=["greet"], context="A hint.")
    assert kinds(memory) == ["greet0", "new greet0"]
    assert "A hint." in memory.calls[-1].prompt


def test_textgrad_starts_at_the_failure_of_an_operator(context: Any) -> None:
    problem = greeting(decide=DECIDE_BROKEN)
    proposer, memory = proposer_of(context, problem, "TextGrad")
    asked(proposer, memory, problem.initial_state(), [0])
    assert kinds(memory) == ["decide0", "new decide0"]
    assert "no idea about" in memory.calls[0].prompt


def twice(a: str) -> str:
    """Twice."""
    return a + a


def diamond() -> Problem:
    """One value in between that two others are made from."""

    def agent(ops: Any, query: str) -> Any:
        middle = ops.apply(twice, ops.param("t"))
        return ops.apply(joined, ops.apply(twice, middle), ops.apply(twice, middle))

    return Problem(
        parameters=(Parameter("t", "a", "text", description="A word."),),
        guide=lambda query, response, reference: (float(len(response)), "longer"),
        train=(Example("e"),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=agent,
    )


def test_textgrad_merges_what_several_edges_say_about_one_value(context: Any) -> None:
    proposer, memory = proposer_of(context, diamond(), "TextGrad")
    asked(proposer, memory, {"t": "a"})
    assert kinds(memory) == [
        "twice_result1", "twice_result2", "twice_result0", "twice_result0", "merge", "t0", "new t0",
    ]  # fmt: skip
    assert memory.calls[4].prompt == f"<FEEDBACK>{CRITICISM}</FEEDBACK>\n<FEEDBACK>{CRITICISM}</FEEDBACK>"
    assert "<ROLE>t0 (A word)</ROLE>" in memory.calls[-1].prompt


def test_a_criticism_without_text_is_told_and_the_others_count(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return " " if slot.attempt == 0 else answering(lambda *_: "b")(messages, slot, variables)

    proposer, memory = proposer_of(context, diamond(), "TextGrad", model)
    asked(proposer, memory, {"t": "a"})
    assert kinds(memory) == ["twice_result1", "twice_result2", "twice_result0", "t0", "new t0"]
    (told,) = memory.told("proposal.unusable")
    assert told["slot"] == str(SLOT) and told["reason"].startswith("of the criticism of twice_result1:")


def test_without_any_criticism_nothing_is_rewritten(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "TextGrad", lambda *_: "")
    prompt = proposer.explore({"x": 1.0}, [0]).prompt
    assert list(proposer.proposals([Ask(prompt, SLOT)])) == [None]
    assert kinds(memory) == ["x0"] and len(memory.told("proposal.unusable")) == 1


def test_an_essay_is_not_paid_for_again_with_each_later_call(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return "word " * 100_000 if not variables else written(form_of(variables), {variables[0]["name"]: "b"})

    proposer, memory = proposer_of(context, diamond(), "TextGrad", model)
    asked(proposer, memory, {"t": "a"})
    assert max(len(m["content"]) for c in memory.calls for m in c.messages) < 40_000


def test_past_values_are_shown_for_momentum(context: Any) -> None:
    proposer, memory = proposer_of(context, numeric(), "TextGrad", memory_size=2)
    first = proposer.explore({"x": 1.0}, [0]).prompt
    user = asked(proposer, memory, {"x": 2.0}, [0], first.past)
    assert "<PAST_ITERATIONS>1.0</PAST_ITERATIONS>" in user


# -- OptoPrimeMulti -------------------------------------------------------------------------------------------------


def several(values: Any, choice: Any = None) -> Any:
    """Answers attempt by attempt; a choice with `choice`."""

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        if form_of(variables) == "choice":
            return str(choice if isinstance(choice, str) else suggest(choice=choice))
        value = values[slot.attempt]
        return value if isinstance(value, str) else suggest(x0=value)

    return model


def multi(context: Any, model: Any, **kwargs: Any) -> Any:
    proposer, memory = proposer_of(context, numeric(), "OptoPrimeMulti", model, **kwargs)
    prompt = proposer.explore({"x": 1.0}, [0]).prompt
    (state,) = proposer.proposals([Ask(prompt, SLOT)])
    return state, memory


def test_temperatures_fall_evenly_and_are_sent(context: Any) -> None:
    _, memory = multi(context, several([1.5, 2.0, 2.5, 3.0, 3.5], 1))
    assert [c.request["temperature"] for c in memory.calls] == pytest.approx([1.3, 0.975, 0.65, 0.325, 0.0, 0.0])
    assert [c.slot.attempt for c in memory.calls] == [0, 1, 2, 3, 4, 5]
    assert all(c.request["response_format"] == {"type": "json_object"} for c in memory.calls)
    _, memory = multi(context, several([1.5]), num_responses=1, max_temperature=0.7)
    assert [c.request["temperature"] for c in memory.calls] == [0.7]


def test_the_model_chooses_among_the_different_candidates(context: Any) -> None:
    state, memory = multi(context, several([1.5, 2.0, 1.5, "nonsense", 3.5], 2))
    assert state == {"x": 2.0}
    question = memory.calls[-1].prompt
    assert "These are 3 candidate" in question and "Candidate 3" in question
    assert memory.calls[-1].variables == [
        {"name": "choice", "kind": "int", "value": 3, "bounds": [1.0, 3.0], "alternatives": []}
    ]
    assert [e["slot"].endswith("attempt=3") for e in memory.told("proposal.unusable")] == [True]


@pytest.mark.parametrize("choice", [0, 4, "I like the second", '{"suggestion": {}}', '{"suggestion": {"x0": 1}}', ""])
def test_a_choice_that_cannot_be_read_is_told_and_the_last_candidate_taken(context: Any, choice: Any) -> None:
    state, memory = multi(context, several([1.5, 2.0, 3.5], choice), num_responses=3)
    assert state == {"x": 3.5}
    (told,) = memory.told("proposal.unusable")
    assert told["slot"].endswith("attempt=3") and "the last candidate is taken" in told["reason"]


def test_one_different_candidate_needs_no_choice(context: Any) -> None:
    state, memory = multi(context, several([2.0, "nonsense", 2.0]), num_responses=3)
    assert state == {"x": 2.0} and len(memory.calls) == 3


def test_the_majority_wins_and_of_equals_the_first(context: Any) -> None:
    technique = {"selection_technique": "majority", "num_responses": 5}
    assert multi(context, several([1.5, 2.0, 2.0, 3.0, 1.5]), **technique)[0] == {"x": 1.5}
    assert multi(context, several([1.5, 2.0, 2.0, 2.0, 1.5]), **technique)[0] == {"x": 2.0}


def test_the_last_usable_candidate_is_taken_if_asked_to(context: Any) -> None:
    state, memory = multi(context, several([1.5, 2.0, "nonsense"]), num_responses=3, selection_technique="last")
    assert state == {"x": 2.0} and len(memory.calls) == 3


@pytest.mark.parametrize(
    ("technique", "shown"), [("self_refinement", [0, 1, 1]), ("iterative_alternatives", [0, 1, 2])]
)
def test_a_technique_shows_earlier_answers(context: Any, technique: str, shown: list[int]) -> None:
    _, memory = multi(context, several([1.5, 2.0, 2.5], 1), num_responses=3, generation_technique=technique)
    calls = memory.calls[:3]
    assert [sum(f'"x0": {x}' in c.messages[-1]["content"] for x in (1.5, 2.0, 2.5)) for c in calls] == shown
    assert [c.request["temperature"] for c in calls] == [1.3, 1.3, 1.3]
