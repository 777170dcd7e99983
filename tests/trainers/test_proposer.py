"""Proposals through OptoPrime: what the model is shown, how often it is asked, and what becomes of its answer."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from tests.trainers.memory_context import DECIDE_BROKEN, DECIDE_RIGHT, GREET_RIGHT, greeting, numeric, suggest
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Slot
from trace_bench.trainers.proposer import Ask, Proposer
from trace_bench.worker.problem import Example, Parameter, Problem

SLOT = Slot(1, "c0")


def silent(*_: Any) -> str:
    return suggest()


def test_the_prompt_of_a_number_shows_value_constraint_result_and_feedback(context: Any) -> None:
    problem = numeric()
    explored = Proposer(problem, context(problem, silent)).explore({"x": 2.5}, [0])
    system, user = (m["content"] for m in explored.prompt.messages)
    assert "{{" not in system
    assert '"suggestion": {' in system
    for line in (
        "Find the number.",
        "score0 = evaluate(x=x0)",
        "(float) x0=2.5",
        "(float) x0: the guess; from -10 to 10, both included",
        "(float) score0=-0.5",
        "(score -0.5, higher is better) 2.5 is too low",
    ):
        assert line in user
    assert [r.score for r in explored.rollouts] == [-0.5]


def test_the_prompt_of_two_chained_operators_shows_both_sources(context: Any) -> None:
    problem = greeting()
    memory = context(problem, silent)
    explored = Proposer(problem, memory).explore(problem.initial_state(), [0, 1])
    user = explored.prompt.messages[1]["content"]
    assert "(code) decide0:def decide(query):" in user
    assert "(code) greet0:def greet(lang, name):" in user
    assert "decide_result0 = call_decide(__code=decide0, query=query0)" in user
    assert "greet_result0 = call_greet(__code=greet0, lang=decide_result0, name=name_of_result0)" in user
    assert "The last word of the query." in user
    assert "The code should start with:\ndef greet(lang, name):" in user
    assert "ID [0]: (score 1, higher is better) expected Hello Sam" in user
    assert "ID [1]: (score 0, higher is better) expected Hola Ana" in user
    assert [v.prompt_name for v in explored.prompt.variables] == ["decide0", "greet0"]
    assert memory.evaluations == 2


def test_a_broken_operator_tells_its_error_to_the_next_proposal(context: Any) -> None:
    problem = greeting(decide=DECIDE_BROKEN)
    explored = Proposer(problem, context(problem, silent)).explore(problem.initial_state(), [0])
    user = explored.prompt.messages[1]["content"]
    assert "exception_call_decide0 = call_decide(__code=decide0, query=query0)" in user
    assert "no idea about Greet in English: Sam" in user
    assert explored.rollouts[0].failed
    # greet was never reached, so it is no variable of this prompt.
    assert [v.prompt_name for v in explored.prompt.variables] == ["decide0"]


@pytest.mark.parametrize(("only", "other"), [("decide", "greet"), ("greet", "decide")])
def test_a_prompt_can_be_held_to_some_of_the_parameters_and_the_others_stay_as_they_are(
    context: Any, only: str, other: str
) -> None:
    problem = greeting()
    text = suggest(**{f"{only}0": f"def {only}(*args): ...", f"{other}0": "anything"})
    memory = context(problem, lambda *_: text)
    proposer = Proposer(problem, memory)
    state = {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    explored = proposer.explore(state, [0, 1], only=(only,))
    assert [r.score for r in explored.rollouts] == [1.0, 1.0]  # it is the state that runs, not the start
    user = explored.prompt.messages[1]["content"]
    begin, end = user.index("#Variables"), user.index("#Inputs")
    assert f"(code) {only}0:" in user[begin:end] and f"{other}0:" not in user[begin:end]
    assert [v.prompt_name for v in explored.prompt.variables] == [f"{only}0"]
    (read,) = proposer.proposals([Ask(explored.prompt, SLOT)])
    assert read == {**state, only: f"def {only}(*args): ..."}
    assert memory.told("proposal.unknown_variables") == [{"slot": str(SLOT), "names": [f"{other}0"]}]


def test_source_in_a_problem_without_agent_is_marked_as_code(context: Any) -> None:
    problem = Problem(
        parameters=(Parameter("code", "def f():\n    return 1\n", "code", entry="f", signature="def f():"),),
        guide=lambda query, response, reference: (1.0, "fine"),
        train=(Example("e"),),
        objective="Write f.",
        direction="maximize",
        failure_score=0.0,
    )
    explored = Proposer(problem, context(problem, silent)).explore(problem.initial_state(), [0])
    user = explored.prompt.messages[1]["content"]
    assert "(code) code0:def f():\n    return 1" in user
    assert "(code) code0: The code should start with:\ndef f():" in user


def test_long_values_are_clipped_unless_they_are_variables(context: Any) -> None:
    long = "x" * 5000
    problem = Problem(
        parameters=(Parameter("text", long, "text"),),
        guide=lambda query, response, reference: (1.0, "fine"),
        train=(Example("e", "y" * 5000),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=lambda ops, query: ops.apply(_join, ops.param("text"), query),
    )
    user = Proposer(problem, context(problem, silent)).explore({"text": long}, [0]).prompt.messages[1]["content"]
    assert long in user
    assert "y" * 2001 not in user
    assert "(3000 more characters)" in user


def _join(text: str, query: str) -> str:
    """Joins."""
    return text + query


def test_a_phrase_of_the_prompt_inside_source_cuts_nothing(context: Any) -> None:
    """OptoPrime splits its prompt at "Your response:" where it has a memory."""
    value = "one\n\nYour response:\n\ntwo"
    problem = Problem(
        parameters=(Parameter("text", value, "text"),),
        guide=lambda query, response, reference: (1.0, "the feedback"),
        train=(Example("e"),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
    )
    proposer = Proposer(problem, context(problem, silent, optimizer_kwargs={"memory_size": 2}))
    first = proposer.explore({"text": value}, [0])
    second = proposer.explore({"text": value}, [0], first.prompt.past)
    user = second.prompt.messages[1]["content"]
    assert user.index("two") < user.index("the feedback") < user.index("received in the past")


def test_memory_shows_the_ancestors_and_no_more_than_its_size(context: Any) -> None:
    problem = numeric()
    proposer = Proposer(problem, context(problem, silent, optimizer_kwargs={"memory_size": 2}))
    past: Any = ()
    for value in (1.0, 2.0, 4.0):
        prompt = proposer.explore({"x": value}, [0], past).prompt
        past = prompt.past
    user = prompt.messages[1]["content"]
    assert [dict(v) for v, _ in past] == [{"x0": 2.0}, {"x0": 4.0}]
    assert '"x0": 1.0' in user and '"x0": 2.0' in user and '"x0": 4.0' not in user


def test_without_memory_nothing_is_remembered(context: Any) -> None:
    problem = numeric()
    prompt = Proposer(problem, context(problem, silent)).explore({"x": 1.0}, [0]).prompt
    assert prompt.past == ()
    assert "in the past" not in prompt.messages[1]["content"]


def test_context_stands_in_the_prompt_and_only_what_may_change_is_a_variable(context: Any) -> None:
    problem = greeting()
    explored = Proposer(problem, context(problem, silent)).explore(
        problem.initial_state(), [0], context="A hint from elsewhere.", only=["greet"]
    )
    user = explored.prompt.messages[1]["content"]
    assert "A hint from elsewhere." in user
    assert [v.parameter.name for v in explored.prompt.variables] == ["greet"]
    variables, inputs = user.split("#Variables")[1].split("#Inputs")
    assert "(code) greet0" in variables and "decide0" not in variables
    assert "(code) decide0:def decide(query):" in inputs


def test_what_is_no_trainable_parameter_cannot_be_the_only_one(context: Any) -> None:
    problem = greeting()
    with pytest.raises(TrainerError, match=r"^'zzz' is no trainable parameter; there are decide, greet\.$"):
        Proposer(problem, context(problem, silent)).explore(problem.initial_state(), [0], only=["zzz"])


def test_an_error_of_the_model_is_passed_on_and_not_asked_again(context: Any) -> None:
    def failing(*_: Any) -> str:
        raise ConnectionError("no model today")

    problem = numeric()
    memory = context(problem, failing)
    proposer = Proposer(problem, memory)
    prompt = proposer.explore({"x": 1.0}, [0]).prompt
    with pytest.raises(ConnectionError, match="no model today"):
        proposer.propose(Ask(prompt, SLOT))
    assert len(memory.calls) == 1


def test_the_request_names_slot_variables_and_limits(context: Any) -> None:
    problem = numeric()
    memory = context(problem, silent, optimizer_kwargs={"max_tokens": 99})
    proposer = Proposer(problem, memory)
    proposer.propose(Ask(proposer.explore({"x": 1.0}, [0]).prompt, SLOT))
    (call,) = memory.calls
    assert call.slot == SLOT
    assert call.request == {"response_format": {"type": "json_object"}, "max_tokens": 99}
    assert call.variables == [
        {"name": "x0", "kind": "float", "value": 1.0, "bounds": [-10.0, 10.0], "alternatives": []}
    ]


def read(context: Any, text: str, **fields: Any) -> tuple[Any, Any]:
    problem = greeting()
    memory = context(problem, lambda *_: text, **fields)
    proposer = Proposer(problem, memory)
    prompt = proposer.explore(problem.initial_state(), [0]).prompt
    return next(proposer.proposals([Ask(prompt, SLOT)])), memory


def test_what_a_proposal_leaves_out_stays_as_it_is(context: Any) -> None:
    state, memory = read(context, suggest(greet0="def greet(lang, name):\n    return name\n"))
    assert state["greet"].endswith("return name\n")
    assert state["decide"] == greeting().initial_state()["decide"]
    assert memory.events == []


def test_one_bad_value_does_not_spoil_the_others(context: Any) -> None:
    state, memory = read(context, suggest(decide0=7, greet0="def greet(lang, name):\n    return name\n"))
    assert state["greet"].endswith("return name\n")
    assert memory.told("proposal.rejected")[0]["variable"] == "decide"
    assert len(memory.warnings) == 1


@pytest.mark.parametrize(
    ("text", "event", "said"),
    [
        ("I am sorry.", "proposal.unusable", "no JSON object"),
        ("TERMINATE", "proposal.terminate", ""),
        (suggest(result0="x"), "proposal.unknown_variables", "result0"),
        (suggest(greet0=""), "proposal.rejected", "empty"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_event_and_no_error(context: Any, text: str, event: str, said: str) -> None:
    state, memory = read(context, text)
    assert state is None
    (fields,) = memory.told(event)
    assert fields["slot"] == str(SLOT)
    assert said in str(fields)


def test_a_cut_off_answer_says_so(context: Any) -> None:
    _, memory = read(context, '{"suggestion": {"greet0": "def', finish_reason="length")
    (told,) = memory.told("proposal.unusable")
    assert "cut off at max_tokens" in told["reason"] and told["kind"] == "cut_off"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I am sorry.", "no_json"),
        ('{"reasoning": "r"}', "no_suggestion"),
        (suggest(), "no_suggestion"),
        (suggest(result0="x"), "unknown_names"),
        (suggest(greet0=""), "invalid_value"),
        (suggest(greet0="", result0="x"), "invalid_value"),
        (" ", "empty"),
    ],
)
def test_an_answer_that_proposes_nothing_is_one_unusable_answer_of_a_kind(context: Any, text: str, kind: str) -> None:
    state, memory = read(context, text)
    assert state is None
    (told,) = memory.told("proposal.unusable")
    assert (told["kind"], told["slot"]) == (kind, str(SLOT)) and told["reason"]


@pytest.mark.parametrize("text", ["TERMINATE", suggest(greet0="def greet(name): return name", result0="x")])
def test_an_answer_that_wants_no_change_or_has_one_good_value_is_usable(context: Any, text: str) -> None:
    assert read(context, text)[1].told("proposal.unusable") == []


def test_a_number_out_of_bounds_is_rejected_with_one_warning(context: Any) -> None:
    problem = numeric()
    values = iter((11, -11))
    memory = context(problem, lambda *_: suggest(x0=next(values)))
    proposer = Proposer(problem, memory)
    ask = Ask(proposer.explore({"x": 1.0}, [0]).prompt, SLOT)
    assert list(proposer.proposals([ask, ask])) == [None, None]
    assert len(memory.told("proposal.rejected")) == 2
    assert len(memory.warnings) == 1
    assert "bounds from -10 to 10" in memory.warnings[0]


def test_a_response_that_depends_on_no_parameter_gives_no_prompt(context: Any) -> None:
    problem = Problem(
        parameters=(Parameter("x", 1, "int"),),
        guide=lambda query, response, reference: (0.0, ""),
        train=(Example("e"), Example("f")),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=lambda ops, query: "constant",
    )
    proposer = Proposer(problem, context(problem, silent))
    assert proposer.explore({"x": 1}, [0, 1]).prompt is None
    assert proposer.explore({"x": 1}, [0]).prompt is None


def test_an_optimizer_that_cannot_be_had_stops_before_anything_is_paid(context: Any) -> None:
    problem = numeric()
    with pytest.raises(TrainerError, match="OptoPrimeBatchOpt"):
        Proposer(problem, context(problem, silent, optimizer="OptoPrimeBatchOpt"))


def add(a: int, b: int, c: int) -> int:
    """Adds."""
    return a + b + c


def test_the_prompt_does_not_depend_on_memory_addresses(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """trace-opt visits the nodes of one level in the order of their ids; a cassette could not be replayed."""

    def agent(ops: Any, query: int) -> Any:
        p = [ops.param(f"p{i}") for i in range(12)]
        parts = [ops.apply(add, p[i], p[(i * 5 + 1) % 12], query) for i in range(12)]
        return ops.apply(add, *[ops.apply(add, *parts[k : k + 3]) for k in (0, 3, 6)])

    problem = Problem(
        parameters=tuple(Parameter(f"p{i}", i, "int") for i in range(12)),
        guide=lambda query, response, reference: (1.0, "fine"),
        train=(Example("a", 1), Example("b", 2)),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=agent,
    )
    proposer = Proposer(problem, context(problem, silent))
    prompts = set()
    for seed in range(5):
        chance = random.Random(seed)
        addresses: dict[int, float] = {}

        def address(node: object, chance: random.Random = chance, seen: dict[int, float] = addresses) -> float:
            return seen.setdefault(id(node), chance.random())

        monkeypatch.setattr(sys.modules["opto.trace.nodes"], "id", address, raising=False)
        prompts.add(str(proposer.explore(problem.initial_state(), [0, 1]).prompt.messages))  # type: ignore[union-attr]
        assert addresses
    assert len(prompts) == 1
