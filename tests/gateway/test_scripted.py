"""Scripted models: rules of a file, in order; the same answers whatever the threads do."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.conftest import encode_variables
from trace_bench.artifacts.contract import ModelRef
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import Hints, LlmRequest, ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.scripted import ScriptedProvider, read_rules
from trace_bench.gateway.server import Gateway

REPOSITORY = Path(__file__).resolve().parents[2]

MODEL = ModelRef(id="scripted:s", provider="scripted", model="scripted:s")
X = {"name": "x0", "kind": "float", "value": 1.0, "bounds": [0, 4]}


def provider(folder: Path, script: dict[str, Any] | str) -> ScriptedProvider:
    path = folder / "s.yaml"
    path.write_text(script if isinstance(script, str) else yaml.safe_dump(script), encoding="utf-8")
    return ScriptedProvider(read_rules(path))


def ask(
    model: ScriptedProvider,
    text: str = "hello",
    *,
    slot: str | None = None,
    variables: list[dict[str, Any]] | None = None,
    path: str = "/v1/chat/completions",
    body: dict[str, Any] | None = None,
    **fields: Any,
) -> ProviderReply:
    hints = Hints(slot, encode_variables(variables) if variables is not None else None)
    whole = body or {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]}
    return model.complete(ProviderRequest(path, whole, MODEL, 7, "hash", hints, **fields))


def content(reply: ProviderReply) -> Any:
    return reply.body["choices"][0]["message"]["content"]


def suggestion(reply: ProviderReply) -> Any:
    return json.loads(content(reply))["suggestion"]


# ------------------------------------------------------------------------------------------------- which rule


def test_the_first_rule_that_matches_answers(tmp_path: Path) -> None:
    model = provider(
        tmp_path,
        {
            "rules": [
                {"match": {"contains": ["hello", "brief"]}, "text": "both"},
                {"match": {"contains": "hello", "last": True}, "text": "one"},
                {"match": {"contains": "hello"}, "text": "never"},
            ],
            "default": {"text": "none"},
        },
    )
    assert [content(ask(model, text)) for text in ("hello", "HELLO")] == ["both", "none"]
    last = {"messages": [{"role": "user", "content": "brief"}, {"role": "user", "content": "hello"}]}
    assert content(ask(model, body={"messages": last["messages"][::-1]})) == "both"
    assert content(ask(model, body={"messages": [{"role": "user", "content": [{"text": "hello"}]}]})) == "one"


@pytest.mark.parametrize(
    ("match", "fields", "other"),
    [
        ({"phase": "score"}, {"phase": "score"}, {"phase": "train"}),
        ({"step": [1, 3]}, {"slot": "step=3;candidate=c0"}, {"slot": "step=2;candidate=c0"}),
        ({"step": 1}, {"slot": "step=1"}, {"slot": None}),
        ({"candidate": "c1"}, {"slot": "step=1;candidate=c1"}, {"slot": "step=1;candidate=c0"}),
        ({"proposal": 0}, {"slot": "step=1;proposal=0"}, {"slot": "step=1;proposal=1"}),
        ({"attempt": 2}, {"slot": "step=1;attempt=2"}, {"slot": "step=1;attempt=0"}),
        ({"number": 2}, {"number": 2}, {"number": 1}),
        ({"number": 2}, {"slot": "step=2"}, {"slot": "step=0"}),
        ({"regex": "(?i)HEL+O$"}, {"text": "so: hello"}, {"text": "hello there"}),
    ],
)
def test_what_a_rule_can_be_for(
    tmp_path: Path, match: dict[str, Any], fields: dict[str, Any], other: dict[str, Any]
) -> None:
    model = provider(tmp_path, {"rules": [{"match": match, "text": "yes"}], "default": {"text": "no"}})

    def said(asked: dict[str, Any]) -> Any:
        return (ask(model, **asked).body["choices"][0].get("text") or content(ask(model, **asked))).strip()

    assert (said(fields), said(other)) == ("yes", "no")


def test_turns_of_a_conversation_are_counted(tmp_path: Path) -> None:
    model = provider(tmp_path, {"rules": [{"match": {"turn": 2}, "text": "second"}], "default": {"text": "first"}})
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert [content(ask(model, body={"messages": talk[:n]})) for n in (1, 3)] == ["first", "second"]


def test_without_a_default_what_no_rule_matches_is_refused(tmp_path: Path) -> None:
    model = provider(tmp_path, {"rules": [{"match": {"contains": "other"}, "text": "t"}]})
    with pytest.raises(Refusal, match="no rule of the model's script matches"):
        ask(model)


# -------------------------------------------------------------------------------------------------- what it says


def test_templates_name_groups_variables_and_the_place(tmp_path: Path) -> None:
    rule = {
        "match": {"regex": "is (?P<how>small|large)"},
        "text": '${how} x=${variables.x} ${variables.x0} in ${step} of ${candidate}, seed ${seed}, {"a": 1} $5',
    }
    model = provider(tmp_path, {"rules": [rule]})
    said = content(ask(model, "it is small", slot="step=4;candidate=c2", variables=[X]))
    assert said == 'small x=1.0 1.0 in 4 of c2, seed 7, {"a": 1} $5'
    with pytest.raises(Refusal, match=r"names \$\{variables.x\}, which this request does not have"):
        ask(model, "it is small", slot="step=4;candidate=c2")


def test_json_keeps_the_types_of_its_values(tmp_path: Path) -> None:
    given = {"x": "${variables.x}", "list": [1, "at ${step}"], "yes": True, "none": None}
    model = provider(tmp_path, {"default": {"json": given}})
    said = json.loads(content(ask(model, slot="step=1", variables=[X])))
    assert said == {"x": 1.0, "list": [1, "at 1"], "yes": True, "none": None}


def test_tools_are_called(tmp_path: Path) -> None:
    rule = {"tools": [{"name": "look", "arguments": {"at": "${number}", "n": 2}}, {"name": "end"}]}
    model = provider(tmp_path, {"default": rule})
    choice = ask(model, number=3).body["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in choice["message"]["tool_calls"]
    ]
    assert calls == [("look", {"at": 3, "n": 2}), ("end", {})]
    output = ask(model, path="/v1/responses", body={"input": "x"}, number=3).body["output"]
    assert [(item["type"], item["name"]) for item in output] == [("function_call", "look"), ("function_call", "end")]


@pytest.mark.parametrize(
    ("step", "variable", "new"),
    [
        ({"add": 0.5}, X, 1.5),
        ({"add": 99}, X, 4.0),
        ({"add": -99}, X, 0.0),
        ({"towards": 3, "share": 0.5}, X, 2.0),
        ({"towards": 9}, X, 4),
        ({"towards": 0, "share": 0.5}, X, 0.5),
        ({"value": 2}, X, 2),
        ({"value": "${variables.x}"}, X, None),
        ({"add": 0.6}, {"name": "x0", "kind": "int", "value": 1}, 2),
        ({"add": 1e308}, {"name": "x0", "kind": "float", "value": 1e300, "bounds": None}, 1e308 + 1e300),
        ({"add": 1.7976931348623157e308}, {"name": "x0", "kind": "float", "value": 1e300}, None),
        ({"alternative": 3}, {"name": "x0", "kind": "code", "value": "a", "alternatives": ["a", "b"]}, "b"),
        ({"alternative": 0}, {"name": "x0", "kind": "code", "value": "a", "alternatives": ["a", "b"]}, None),
        ({"alternative": -2}, {"name": "x0", "kind": "code", "value": "a", "alternatives": ["a", "b", "c"]}, "b"),
        ({"add": 1}, {"name": "x0", "kind": "text", "value": "a"}, None),
    ],
)
def test_a_step_changes_a_variable_within_its_bounds(
    tmp_path: Path, step: dict[str, Any], variable: dict[str, Any], new: Any
) -> None:
    for name in ("x0", "x", "*"):
        reply = ask(provider(tmp_path, {"default": {"set": {name: step}}}), variables=[variable])
        assert suggestion(reply) == ({} if new is None else {"x0": new})
        assert reply.inert == (new is None), "an answer that changes nothing is seen as such"


def test_named_variables_come_before_the_others(tmp_path: Path) -> None:
    model = provider(tmp_path, {"default": {"set": {"*": {"add": 1}, "y": {"value": 3}}}})
    assert suggestion(ask(model, variables=[X, {**X, "name": "y0"}, {**X, "name": "z0"}])) == {
        "x0": 2.0, "y0": 3, "z0": 2.0,
    }  # fmt: skip


def test_a_step_is_written_in_the_form_that_is_asked_for(tmp_path: Path) -> None:
    model = provider(tmp_path, {"default": {"set": {"x": {"value": 2.5}}}})
    said = content(ask(model, variables=[{**X, "format": "tags"}]))
    assert said.endswith("<variable>\n<name>x0</name>\n<value>\n2.5\n</value>\n</variable>")
    assert content(ask(model, variables=[{**X, "format": "improved"}])) == "<IMPROVED_VARIABLE>2.5</IMPROVED_VARIABLE>"


def test_several_texts_are_given_in_turn_and_the_last_stays(tmp_path: Path) -> None:
    model = provider(tmp_path, {"default": {"text": ["a", "b${number}"]}})
    for asked in ([{"number": n} for n in range(1, 5)], [{"slot": f"step={n};candidate=c0"} for n in range(1, 5)]):
        assert [content(ask(model, **one)) for one in asked] == ["a", "b2", "b3", "b4"]


def test_rules_for_numbers_repeat_answers(tmp_path: Path) -> None:
    rules = [{"match": {"number": [1, 3]}, "text": "a"}, {"match": {"number": 2}, "text": "b"}]
    model = provider(tmp_path, {"rules": rules, "default": {"text": "c"}})
    assert "".join(content(ask(model, number=n)) for n in range(1, 6)) == "abacc"


def test_tokens_and_prices_are_counted(tmp_path: Path) -> None:
    model = provider(tmp_path, {"prices": {"prompt": 1e6, "completion": 2e6}, "default": {"text": "x" * 8}})
    reply = ask(model, body={"messages": [{"role": "user", "content": "y" * 9}], "n": 2})
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd) == (3, 4, 3 + 8)
    assert reply.body["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert len(reply.body["choices"]) == 2 and model.paid
    assert not provider(tmp_path, {"default": {"text": "x"}}).paid


def test_only_one_that_takes_its_time_is_not_quick(tmp_path: Path) -> None:
    assert provider(tmp_path, {"default": {"text": "x"}}).quick
    assert not provider(tmp_path, {"default": {"text": "x", "latency": 0.001}}).quick


def test_failures_come_as_a_providers_do(tmp_path: Path) -> None:
    def failing(**fail: Any) -> ScriptedProvider:
        return provider(tmp_path, {"default": {"text": "at last", "fail": fail}})

    reply = ask(failing(status=429, tries=2))
    assert content(reply) == "at last" and [t.status for t in reply.tries] == [429, 429, 200]
    with pytest.raises(ProviderError, match="status 503: the script says so") as caught:
        ask(failing(status=503))
    assert [t.status for t in caught.value.tries] == [503]
    reply = ask(failing(status=400, message="too long"))
    assert reply.status == 400 and reply.body["error"]["message"] == "too long"
    with pytest.raises(ProviderError):
        ask(provider(tmp_path, {"default": {"fail": {}}}))


def test_the_older_kinds_of_request_have_answers_of_their_own_form(tmp_path: Path) -> None:
    model = provider(tmp_path, {"rules": [{"match": {"regex": "say (?P<what>.*)"}, "text": "${what}"}]})
    assert ask(model, path="/v1/completions", body={"prompt": "say a"}).body["choices"][0]["text"] == "a"
    several = ask(model, path="/v1/completions", body={"prompt": ["say a", "x"], "n": 2}).body["choices"]
    assert [choice["index"] for choice in several] == [0, 1, 2, 3]
    with pytest.raises(Refusal, match="at most 2048 answers"):
        ask(model, path="/v1/completions", body={"prompt": ["say a"] * 3000})
    asked = {
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "say b"}]}],
    }
    body = ask(model, path="/v1/responses", body=asked).body
    assert body["output"][0]["content"][0]["text"] == "b" and body["usage"]["output_tokens"] == 1
    body = ask(model, path="/v1/embeddings", body={"input": "x"}).body
    assert len(body["data"][0]["embedding"]) == 64


# ------------------------------------------------------------------------------------------------- through a scope


def sequence_of_calls(folder: Path, order: list[int], threads: int, slots: bool) -> dict[int, str]:
    """What each of some calls is answered, through the gateway."""
    folder.mkdir()
    model = provider(folder, {"default": {"text": [f"answer {n}" for n in range(1, 9)]}})

    def one(n: int) -> tuple[int, str]:
        headers = {"x-trace-bench-slot": f"step={n};candidate=c0"} if slots else {}
        body = json.dumps({"messages": [{"role": "user", "content": f"{n}"}]}).encode()
        response = scope.handle(LlmRequest(f"train-{n}", "POST", "/v1/chat/completions", headers, body))
        return n, json.loads(response.body)["choices"][0]["message"]["content"]

    gateway = Gateway({MODEL.id: model})
    with gateway.open("0" * 12, 1, MODEL, folder / "llm.jsonl") as scope, ThreadPoolExecutor(threads) as pool:
        return dict(pool.map(one, order))


def test_neither_order_nor_threads_change_an_answer_at_a_slot(tmp_path: Path) -> None:
    order = list(range(1, 9))
    wanted = {n: f"answer {n}" for n in order}
    assert sequence_of_calls(tmp_path / "a", order, 1, slots=True) == wanted
    random.Random(1).shuffle(order)
    assert sequence_of_calls(tmp_path / "b", order, 4, slots=True) == wanted


def test_calls_without_a_slot_are_counted_per_job_and_over_its_attempts(tmp_path: Path) -> None:
    assert sequence_of_calls(tmp_path / "a", [5, 3, 4], 1, slots=False) == {5: "answer 1", 3: "answer 2", 4: "answer 3"}
    model = ScriptedProvider(read_rules(tmp_path / "a" / "s.yaml"))
    gateway = Gateway({MODEL.id: model})
    said = []
    with gateway.open("0" * 12, 1, MODEL, tmp_path / "a" / "llm.jsonl", attempt=2) as scope:
        for n in (5, 3, 9):
            body = json.dumps({"messages": [{"role": "user", "content": f"{n}"}]}).encode()
            response = scope.handle(LlmRequest(f"train-{n}", "POST", "/v1/chat/completions", {}, body))
            said.append(json.loads(response.body)["choices"][0]["message"]["content"])
    assert said == ["answer 1", "answer 2", "answer 4"]


# ------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rules: []\n", "s.yaml, line 1: the script has no rules; write at least a 'default'"),
        ("rulez: []\n", "s.yaml, line 1: unknown key 'rulez'; did you mean 'rules'?"),
        ("default:\n  text: a\n  match: {}\n", "line 1: 'default' is for requests that no rule matches"),
        ("rules:\n  - text: a\n    json: {}\n", "line 2: rules[0] takes exactly one of text, json, tools, set"),
        ("rules:\n  - match: {}\n", "line 2: rules[0] takes exactly one of text, json, tools"),
        ("rules:\n  - text: a\n    match:\n      contians: b\n", "line 4: unknown key 'rules[0].match.contians'"),
        ("rules:\n  - text: a\n    match: {regex: '('}\n", "line 3: rules[0].match.regex is not a regular expression"),
        ("rules:\n  - text: '${side}'\n", "line 2: rules[0] names ${side}, which is none of"),
        ("default:\n  set:\n    x: {add: 1, towards: 2}\n", "line 3: default.set.x takes exactly one of add"),
        ("default:\n  set:\n    x: {add: one}\n", "line 3: default.set.x.add must be a number, not 'one'"),
        ("default:\n  set:\n    x: {add: 1, share: 0.5}\n", "default.set.x has a 'share' without 'towards'"),
        ("default:\n  set:\n    x: {ad: 1}\n", "line 3: unknown key 'default.set.x.ad'; did you mean 'add'?"),
        ("default: {tools: []}\n", "line 1: default.tools is empty"),
        ("default: {sequence: [a]}\n", "line 1: unknown key 'default.sequence'"),
        ("default: {tools: [{arguments: {}}]}\n", "line 1: default.tools[0].name is missing; add it"),
        ("default: {text: a, latency: -1}\n", "line 1: default.latency must be at least 0.0, not the number -1"),
        ("default: {text: a, fail: {status: 200}}\n", "line 1: default.fail.status must be at least 400"),
        ("- a\n", "s.yaml, line 1: holds a list"),
        ("default: {text: a, text: b}\n", "the key 'text' is given twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider(tmp_path, text)
    assert len(str(caught.value).splitlines()) == 1 and sentence in str(caught.value), str(caught.value)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs" / "scripted").glob("*.yaml")), ids=lambda p: p.name)
def test_the_shipped_scripts_can_be_read(path: Path) -> None:
    assert read_rules(path).rules
