"""The stub model: same seed and slot, same answer; everything it proposes is admissible."""

from __future__ import annotations

import base64
import json
import math
import struct
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import STUB, OpenScope, chat, encode_variables, error, suggestion
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.gateway.bodies import count_tokens
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider, changed, propose
from trace_bench.gateway.variables import Variable

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
seeds = st.integers(min_value=0, max_value=2**63)
slots = st.text(alphabet="abcdefgh0123456789=;", min_size=1, max_size=30)


@st.composite
def numbers(draw: st.DrawFn) -> Variable:
    kind = draw(st.sampled_from(["int", "float"]))
    value: Any = draw(st.integers(-(2**62), 2**62) if kind == "int" else finite)
    bounds = draw(st.none() | st.tuples(finite, finite).map(sorted).map(tuple))
    return Variable("x", kind, value, bounds)  # type: ignore[arg-type]


@given(numbers(), seeds, slots)
def test_a_number_moves_and_stays_within_its_bounds(variable: Variable, seed: int, slot: str) -> None:
    new = changed(variable, Draws(seed, slot))
    low, high = variable.bounds or (-math.inf, math.inf)
    if new is None:
        # Only where there is nowhere to go.
        assert variable.bounds is not None
        if variable.kind == "int":
            assert math.floor(high) - math.ceil(low) < 1
        else:
            assert low == high == variable.value
        return
    assert new != variable.value
    assert low <= new <= high  # type: ignore[operator]
    assert type(new) is (int if variable.kind == "int" else float)


@given(st.floats(-1e6, 1e6), seeds)
def test_steps_of_an_unbounded_number_are_small_and_large_but_not_wild(value: float, seed: int) -> None:
    new = changed(Variable("x", "float", value), Draws(seed, "s"))
    assert isinstance(new, float)
    scale = max(abs(value), 1.0)
    assert 0.9e-3 * scale <= abs(new - value) <= 1.1 * scale


def test_half_of_the_steps_are_below_a_thirtieth_of_the_range() -> None:
    variable = Variable("x", "float", 5.0, (0.0, 10.0))
    moves = [abs(float(changed(variable, Draws(7, str(i))) or 0.0) - 5.0) for i in range(1000)]
    small = sum(move < 10.0 * 0.032 for move in moves)
    assert 400 < small < 600
    assert max(moves) > 3.0


@given(st.lists(st.text(max_size=5), min_size=2, max_size=6, unique=True), st.data(), seeds)
def test_code_with_a_ladder_moves_one_step(ladder: list[str], data: st.DataObject, seed: int) -> None:
    at = data.draw(st.integers(0, len(ladder) - 1))
    variable = Variable("f", "code", ladder[at], None, ("other",), tuple(ladder))
    new = changed(variable, Draws(seed, "s"))
    assert new in [ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(ladder)]


def test_a_ladder_is_climbed_and_descended_alike_and_entered_anywhere() -> None:
    variable = Variable("f", "code", "b", None, (), ("a", "b", "c"))
    ups = sum(changed(variable, Draws(7, str(i))) == "c" for i in range(1000))
    assert 400 < ups < 600
    lost = Variable("f", "code", "zzz", None, (), ("a", "b", "c"))
    assert {changed(lost, Draws(7, str(i))) for i in range(50)} == {"a", "b", "c"}


@given(st.lists(st.text(max_size=5), max_size=5), st.text(max_size=5), seeds)
def test_code_becomes_one_of_the_alternatives_that_differ(alternatives: list[str], value: str, seed: int) -> None:
    new = changed(Variable("f", "code", value, None, tuple(alternatives)), Draws(seed, "s"))
    others = [a for a in alternatives if a != value]
    assert new in others if others else new is None


def test_every_alternative_gets_its_turn() -> None:
    variable = Variable("f", "code", "a", None, ("a", "b", "c", "d"))
    counts = Counter(changed(variable, Draws(1, str(i))) for i in range(900))
    assert set(counts) == {"b", "c", "d"}
    assert min(counts.values()) > 200


@given(seeds, slots)
def test_a_subset_of_several_variables_changes_whatever_their_order(seed: int, slot: str) -> None:
    variables = [
        Variable("x", "float", 1.0),
        Variable("k", "int", 3, (0, 9)),
        Variable("fixed", "code", "pass"),
        Variable("f", "code", "a", None, ("b",)),
    ]
    new = propose(variables, Draws(seed, slot))
    assert new
    assert set(new) <= {"x", "k", "f"}
    assert propose(variables[::-1], Draws(seed, slot)) == new


def test_each_subset_of_the_variables_occurs() -> None:
    variables = [Variable("x", "float", 1.0), Variable("k", "int", 3)]
    subsets = Counter(tuple(sorted(propose(variables, Draws(7, str(i))))) for i in range(400))
    assert set(subsets) == {("x",), ("k",), ("k", "x")}
    assert min(subsets.values()) > 50


def test_nothing_changes_where_nothing_can() -> None:
    assert propose([Variable("f", "code", "a"), Variable("x", "float", 1.0, (1.0, 1.0))], Draws(1, "s")) == {}


@given(st.permutations(range(12)), st.integers(1, 4))
def test_answers_do_not_depend_on_order_or_threads(order: list[int], threads: int) -> None:
    provider = StubProvider()

    def ask(i: int) -> tuple[int, bytes]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Gateway({"stub": provider}).open("0123456789ab", 7, STUB, Path(folder) / "llm.jsonl") as scope,
        ):
            return i, scope.handle(chat(f"step={i};candidate=c;proposal=0;attempt=0")).body

    with ThreadPoolExecutor(threads) as pool:
        answers = dict(pool.map(ask, order))
    assert answers == dict(ask(i) for i in range(3)) | {i: answers[i] for i in range(3, 12)}
    assert len(set(answers.values())) > 6


def test_threads_on_one_scope_get_the_answers_of_one_thread(open_scope: OpenScope, cassette: Path) -> None:
    slots_ = [f"step={i};candidate=c;proposal=0;attempt=0" for i in range(40)]
    scope = open_scope()
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda slot: scope.handle(chat(slot)).body, slots_))
    scope.close()
    cassette.unlink()
    alone = open_scope()
    assert [alone.handle(chat(slot)).body for slot in reversed(slots_)] == parallel[::-1]


def test_another_seed_or_slot_gives_another_answer(open_scope: OpenScope, cassette: Path) -> None:
    def answers(seed: int) -> list[dict[str, Any]]:
        cassette.unlink(missing_ok=True)
        with open_scope(seed=seed) as scope:
            return [suggestion(scope.handle(chat(f"step={i}"))) for i in range(20)]

    first, second = answers(1), answers(2)
    # Not none at all: a step beyond a bound ends on it, so two draws may meet there.
    assert sum(a == b for a, b in zip(first, second, strict=True)) <= 3
    assert len({json.dumps(a) for a in first}) >= 15


def test_the_wording_of_the_prompt_does_not_matter(open_scope: OpenScope) -> None:
    scope = open_scope()
    assert suggestion(scope.handle(chat(text="one"))) == suggestion(scope.handle(chat(text="another")))


def test_values_stay_the_same_from_release_to_release(open_scope: OpenScope) -> None:
    """Recorded once: a change here changes every stub run, and is to be a decision."""
    scope = open_scope(seed=7)
    variables: list[dict[str, Any]] = [
        {"name": "x", "kind": "float", "value": 1.0, "bounds": [0, 10]},
        {"name": "k", "kind": "int", "value": 3},
        {"name": "f", "kind": "code", "value": "a", "alternatives": ["b", "c", "d"]},
    ]
    got = [suggestion(scope.handle(chat(f"step={i}", variables))) for i in range(4)]
    assert got == [{"f": "b"}, {"x": 1.05060112457834, "k": 4}, {"f": "c"}, {"x": 4.556927506023153, "f": "b"}]


def test_an_answer_has_the_form_that_the_header_names(open_scope: OpenScope) -> None:
    scope = open_scope()
    x: dict[str, Any] = {"name": "x", "kind": "int", "value": 1, "bounds": [1, 2]}  # it can become 2 only
    texts = []
    for form in ("json", "tags", "improved", "verbatim"):
        body = json.loads(scope.handle(chat(f"step={form}", [{**x, "format": form}])).body)
        texts.append(body["choices"][0]["message"]["content"])
    assert json.loads(texts[0])["suggestion"] == {"x": 2}
    assert texts[1].endswith("</reasoning>\n<variable>\n<name>x</name>\n<value>\n2\n</value>\n</variable>")
    assert texts[2] == "<IMPROVED_VARIABLE>2</IMPROVED_VARIABLE>"
    assert texts[3] == "2"


@pytest.mark.parametrize("form", ["tags", "improved"])
def test_an_answer_of_another_form_that_can_change_nothing_is_inert(open_scope: OpenScope, form: str) -> None:
    response = open_scope().handle(chat("s", [{"name": "f", "kind": "code", "value": "a", "format": form}]))
    assert response.inert
    assert "<variable>" not in response.body.decode() and "<IMPROVED" not in response.body.decode()


def test_n_choices_differ(open_scope: OpenScope) -> None:
    response = open_scope().handle(chat(n=3))
    choices = json.loads(response.body)["choices"]
    assert [c["index"] for c in choices] == [0, 1, 2]
    assert len({c["message"]["content"] for c in choices}) == 3


@pytest.mark.parametrize("n", [0, -1, 129, "2", True, 1.5])
def test_a_bad_n_is_refused(open_scope: OpenScope, n: object) -> None:
    assert error(open_scope().handle(chat(n=n)))["param"] == "n"


def test_a_foreign_client_gets_an_inert_answer(open_scope: OpenScope) -> None:
    scope = open_scope()
    response = scope.handle(chat(None))
    assert suggestion(response) == {}
    assert response.inert
    assert scope.usage().inert == 1


def test_a_moving_answer_is_not_inert(open_scope: OpenScope) -> None:
    scope = open_scope()
    assert not scope.handle(chat()).inert
    assert scope.usage().inert == 0


def test_the_answer_is_a_chat_completion(open_scope: OpenScope) -> None:
    body = json.loads(open_scope().handle(chat(text="12345")).body)
    assert body["object"] == "chat.completion"
    assert body["model"] == "stub"
    assert body["choices"][0]["finish_reason"] == "stop"
    content = body["choices"][0]["message"]["content"]
    assert body["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": count_tokens(content),
        "total_tokens": 2 + count_tokens(content),
    }


def test_content_in_parts_is_counted(open_scope: OpenScope) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "abcd"}, {"type": "image_url"}]}
    body = json.loads(
        open_scope().handle(chat(messages=[message, {"role": "user"}, {"role": "user", "content": 3}])).body
    )
    assert body["usage"]["prompt_tokens"] == 1


@pytest.mark.parametrize(
    "header",
    [
        "no base64!",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(b"[]")[:-3]).decode(),
        base64.b64encode(zlib.compress(b"{}")).decode(),
        base64.b64encode(zlib.compress(b"[[[[")).decode(),
        base64.b64encode(zlib.compress(b" " * (5 << 20))).decode(),
        encode_variables([{"name": "x", "kind": "float", "value": "1"}]),
        encode_variables([{"name": "x", "kind": "float", "value": True}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1.5}]),
        encode_variables([{"name": "x", "kind": "complex", "value": 1}]),
        encode_variables([{"name": "", "kind": "int", "value": 1}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1, "bounds": [3, 1]}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1, "bounds": [3]}]),
        encode_variables([{"name": "x", "kind": "code", "value": "", "alternatives": [1]}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1, "surprise": 1}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1, "format": "yaml"}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1, "format": ["json"]}]),
        encode_variables([{"name": "x", "kind": "int", "value": 1}] * 2),
        encode_variables([{"name": "x", "kind": "int", "value": 10**310}]),
    ],
)
def test_an_unusable_variables_header_is_refused_with_a_sentence(open_scope: OpenScope, header: str) -> None:
    request = chat()
    bad = LlmRequest("1", "POST", request.path, {"x-trace-bench-variables": header}, request.body)
    said = error(open_scope().handle(bad))
    assert said["code"] == "bad_variables"
    assert said["message"].startswith("the header X-Trace-Bench-Variables is unusable: ")


@given(st.binary(max_size=300))
def test_any_bytes_for_variables_are_answered_or_refused(data: bytes) -> None:
    header = base64.b64encode(zlib.compress(data)).decode()
    with (
        tempfile.TemporaryDirectory() as folder,
        Gateway({"stub": StubProvider()}).open("0123456789ab", 1, STUB, Path(folder) / "llm.jsonl") as scope,
    ):
        request = chat()
        response = scope.handle(
            LlmRequest("1", "POST", request.path, {"x-trace-bench-variables": header}, request.body)
        )
    assert response.status in (200, 400)


def _embed(scope_input: Any, **body: Any) -> LlmRequest:
    payload = {"model": "stub", "input": scope_input, **body}
    return LlmRequest("e1", "POST", "/v1/embeddings", {}, json.dumps(payload).encode())


def _vectors(response: LlmResponse) -> list[list[float]]:
    assert response.status == 200, response.body
    return [item["embedding"] for item in json.loads(response.body)["data"]]


def test_embeddings_are_unit_vectors_of_the_text_alone(open_scope: OpenScope) -> None:
    a, b, again = _vectors(open_scope(seed=1).handle(_embed(["a", "b", "a"])))
    assert len(a) == 64
    assert math.isclose(sum(x * x for x in a), 1.0)
    assert a == again
    assert abs(sum(x * y for x, y in zip(a, b, strict=True))) < 0.6


def test_embeddings_come_as_base64_when_asked_for(open_scope: OpenScope) -> None:
    scope = open_scope()
    [plain] = _vectors(scope.handle(_embed("a", dimensions=8)))
    response = scope.handle(
        LlmRequest(
            "e2",
            "POST",
            "/v1/embeddings",
            {},
            json.dumps({"input": "a", "dimensions": 8, "encoding_format": "base64"}).encode(),
        )
    )
    packed = json.loads(response.body)["data"][0]["embedding"]
    assert struct.unpack("<8f", base64.b64decode(packed)) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(
    ("given_input", "body"),
    [(None, {}), ([], {}), ([1, "a"], {}), ("a", {"dimensions": 0}), ("a", {"dimensions": 10**9}),
     ("a", {"encoding_format": "int8"}), (["a"] * 3000, {})],
)  # fmt: skip
def test_a_bad_embedding_request_is_refused(open_scope: OpenScope, given_input: Any, body: Any) -> None:
    assert error(open_scope().handle(_embed(given_input, **body)))["type"] == "invalid_request_error"


def test_token_arrays_can_be_embedded(open_scope: OpenScope) -> None:
    assert len(_vectors(open_scope().handle(_embed([1, 2, 3])))) == 1
