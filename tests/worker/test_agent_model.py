"""What an agent gets of a model, over real HTTP: an answer, the end of a budget, or the provider's failure."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator

import pytest

from tests.gateway.openai_server import EMPTY_CHOICES, MALFORMED, OUT_OF_TOKENS, Behaviour, OpenAIServer, failing
from trace_bench.errors import Boundary
from trace_bench.worker.agent_model import AgentModel, ModelFailed
from trace_bench.worker.problem import ProblemError
from trace_bench.worker.training import StopTraining

MESSAGES = [{"role": "user", "content": "What is 6 times 7?"}]
REFUSED = Behaviour(then=lambda body: body["choices"][0]["message"].update(content=None, refusal="I will not."))
BUDGET = Behaviour(429, body={"error": {"code": "budget_exhausted", "message": "no calls are left"}})


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: "42") as started:
        yield started


def test_an_answer_with_its_tokens_and_the_names_of_call_and_model(server: OpenAIServer) -> None:
    answer = AgentModel(server.port, "mine").ask(MESSAGES, "train-0;answer")
    assert answer.text == "42" and answer.prompt_tokens > 0 and answer.completion_tokens > 0
    (asked,) = server.requests
    assert asked.body == {"model": "mine", "messages": MESSAGES}
    assert asked.headers["x-trace-bench-slot"] == "agent=train-0;answer"
    assert "x-trace-bench-variables" not in asked.headers


def test_what_the_stub_is_to_say_goes_beside_the_request(server: OpenAIServer) -> None:
    AgentModel(server.port, "mine").ask(MESSAGES, "train-0;answer", "it is 42")
    header = server.requests[0].headers["x-trace-bench-variables"]
    (said,) = json.loads(zlib.decompress(base64.b64decode(header)))
    assert said["alternatives"] == ["it is 42"] and said["format"] == "verbatim"
    assert "it is 42" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (OUT_OF_TOKENS, "cut off at its limit of tokens; raise llm.max_tokens"),
        (Behaviour(finish="content_filter"), "held back by the provider's filter"),
        (REFUSED, "refused to answer: I will not."),
        (EMPTY_CHOICES, "not a chat completion"),
        (MALFORMED, "HTTP 200"),
        (failing(503, "overloaded"), "HTTP 503: overloaded"),
    ],
    ids=["cut off", "filtered", "refused", "no choice", "no JSON", "failing"],
)
def test_an_answer_that_is_none_is_the_providers_failure(server: OpenAIServer, behaviour: Behaviour, why: str) -> None:
    server.script(behaviour)
    with pytest.raises(ModelFailed, match=why) as raised:
        AgentModel(server.port, "mine").ask(MESSAGES, "train-0;answer")
    assert raised.value.boundary is Boundary.PROVIDER


def said(content: object, **beside: object) -> Behaviour:
    return Behaviour(then=lambda body: body["choices"][0]["message"].update(content=content, **beside))


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (said("\n<think>6 + 7 is 13</think>\n42"), "42"),
        (said("13, or is it?\n</think>\n42"), "42"),
        (said([{"type": "thinking", "thinking": "13"}, {"type": "text", "text": "42"}]), "42"),
        (said("42", reasoning_content="13"), "42"),
        (said("", reasoning_content="13"), ""),
        (said("<think>13"), ""),
        (said("Write <think>13</think> in the prompt."), "Write <think>13</think> in the prompt."),
    ],
)
def test_an_agent_gets_the_answer_without_the_reasoning(server: OpenAIServer, behaviour: Behaviour, text: str) -> None:
    server.script(behaviour)
    assert AgentModel(server.port, "mine").ask(MESSAGES, "train-0;answer").text == text


def test_in_a_replay_of_an_earlier_run_an_agent_gets_the_content(server: OpenAIServer) -> None:
    server.script(said("\n<think>13</think>\n42"))
    answer = AgentModel(server.port, "mine", reader=1).ask(MESSAGES, "train-0;answer")
    assert answer.text == "\n<think>13</think>\n42"


def test_a_budget_that_ends_is_no_failure(server: OpenAIServer) -> None:
    server.script(BUDGET)
    with pytest.raises(StopTraining) as raised:
        AgentModel(server.port, "mine").ask(MESSAGES, "train-0;answer")
    assert raised.value.reason == "budget"


def test_nothing_is_asked_while_the_problem_is_built() -> None:
    with pytest.raises(ProblemError, match="ask it in the agent"):
        AgentModel(None, "mine").ask(MESSAGES, "train-0;answer")
