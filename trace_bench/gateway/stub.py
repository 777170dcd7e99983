"""The stub model: free, offline and deterministic, and yet it changes parameters.

It lets a whole run be tried, tested and replayed without a provider. Its answer depends on the seed of the job and on
the *slot* of the call (its place in the search) and on nothing else: not on the order of calls, nor on threads, time or
the wording of the prompt. See ``docs/design/stub-model.md``.

Our own proposer says in a private header which variables may change. Any other client gets a well-formed answer that
changes nothing, and the call is marked *inert*, so that a run whose optimizer never moved is recognised.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Value
from trace_bench.gateway.base import ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.bodies import MAX_ANSWERS, answer_body, choices_of, count_tokens, messages_of
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.fields import COMPLETIONS, EMBEDDINGS, RESPONSES
from trace_bench.gateway.variables import Variable, answer_text, variables_of

DEFAULT_DIMENSIONS = 64
MAX_DIMENSIONS = 4096
SMALLEST_STEP = 1e-3
"""Relative to the range of a variable, or to its magnitude where it has no bounds."""
TRIES = 8
INERT = "The stub model was not told of a variable that it could change."


class StubProvider:
    """The provider behind the model ``stub``."""

    name = "stub"
    paid = False
    uses_hints = True
    quick = True

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Answer in the shape of the endpoint. Only chat completions can change anything.

        Raises:
            Refusal: the request is malformed; the message says how.
        """
        if request.path == EMBEDDINGS:
            return embed(request)
        place = (request.hints.slot if request.hints else None) or request.request_hash
        body, moved = request.body, False
        prompt = count_tokens("".join(text for _, text in messages_of(body)))
        if request.path == COMPLETIONS:
            texts = [INERT] * choices_of(body)
            given = body.get("prompt")
            several = isinstance(given, list) and all(isinstance(item, str | list) for item in given)
            prompts = given if several and isinstance(given, list) else [given]
            prompt = sum(count_tokens(p) if isinstance(p, str) else len(p or ()) for p in prompts)
        elif request.path == RESPONSES:
            text = body.get("text")
            form = text.get("format") if isinstance(text, dict) else None
            plain = not isinstance(form, dict) or form.get("type") == "text"
            texts = [INERT if plain else jsonio.dumps({"reasoning": INERT, "answer": "", "suggestion": {}})]
        else:
            variables, texts = variables_of(request), []
            for choice in range(choices_of(body)):
                suggestion = propose(variables, Draws(request.seed, place, choice))
                changes = f"The stub model changes {', '.join(suggestion)} by a seeded draw." if suggestion else INERT
                texts.append(answer_text(variables, suggestion, changes))
                moved = moved or bool(suggestion)
        completion = sum(map(count_tokens, texts))
        name = f"stub-{Draws(request.seed, place, 'id').hex(24)}"
        answer = answer_body(request, name, texts, prompt, completion)
        return ProviderReply(200, answer, prompt, completion, inert=not moved)


# --------------------------------------------------------------------------------------------------------- new values


def propose(variables: Sequence[Variable], draws: Draws) -> dict[str, Value]:
    """New values for a seeded, non-empty subset of those `variables` that can change; empty if none can.

    The new value of a variable depends on its name and on `draws`, not on its place in the list.
    """
    fresh = {v.name: new for v in variables if (new := changed(v, draws.sub("value", v.name))) is not None}
    if len(fresh) < 2:
        return fresh
    chosen = {name for name in fresh if draws.sub("subset", name).flip()}
    if not chosen:
        chosen = {draws.sub("one").pick(sorted(fresh))}
    return {name: value for name, value in fresh.items() if name in chosen}


def changed(variable: Variable, draws: Draws) -> Value | None:
    """Another admissible value of `variable`, or None if there is none."""
    if variable.ladder:
        return _rung(variable, draws)
    if variable.kind in ("code", "text"):
        others = [a for a in variable.alternatives or () if a != variable.value]
        return draws.pick(others) if others else None
    if variable.kind == "int":
        return _int_step(int(variable.value), variable.bounds, draws)
    return _float_step(float(variable.value), variable.bounds, draws)


def _rung(variable: Variable, draws: Draws) -> Value | None:
    """The value above or below on the ladder, each as likely; any of it for a value that is not on it."""
    if variable.value not in variable.ladder:
        return draws.pick(variable.ladder)
    at = variable.ladder.index(variable.value)
    beside = [variable.ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(variable.ladder)]
    return draws.pick(beside) if beside else None


def _step_size(value: float, bounds: tuple[float, float] | None, draws: Draws) -> float:
    """Log-uniform between `SMALLEST_STEP` and 1 of the scale: as many small steps as large ones."""
    span = bounds[1] - bounds[0] if bounds is not None else 0.0
    scale = span if 0.0 < span < math.inf else max(abs(value), 1.0)
    return scale * math.pow(SMALLEST_STEP, draws.unit())


def _float_step(value: float, bounds: tuple[float, float] | None, draws: Draws) -> float | None:
    low, high = bounds if bounds is not None else (-math.inf, math.inf)
    for _ in range(TRIES):
        size = _step_size(value, bounds, draws)
        sign = 1.0 if draws.flip() else -1.0
        for step in (sign * size, -sign * size):
            new = min(max(value + step, low), high)
            if new != value and math.isfinite(new):
                return new
    # Steps vanish beside the value (1e16 in a range of 1), or both bounds are the value.
    neighbours = (math.nextafter(value, high), math.nextafter(value, low))
    return next((new for new in neighbours if new != value and math.isfinite(new)), None)


def _int_step(value: int, bounds: tuple[float, float] | None, draws: Draws) -> int | None:
    low = math.ceil(bounds[0]) if bounds is not None else None
    high = math.floor(bounds[1]) if bounds is not None else None
    if low is not None and high is not None and low > high:
        return None
    size = max(1, round(_step_size(float(value), bounds, draws)))
    sign = 1 if draws.flip() else -1
    for step in (sign * size, -sign * size):
        new = value + step
        if low is not None and high is not None:
            new = min(max(new, low), high)
        if new != value:
            return new
    return None


# --------------------------------------------------------------------------------------------------------- embeddings


def embed(request: ProviderRequest) -> ProviderReply:
    """Unit vectors that depend on the texts alone.

    Raises:
        Refusal: as `StubProvider.complete`.
    """
    body = request.body
    given = body.get("input")
    tokens = isinstance(given, list) and bool(given) and all(isinstance(item, int) for item in given)
    inputs: list[Any] = given if isinstance(given, list) and not tokens else [given]
    if not inputs or len(inputs) > MAX_ANSWERS or not all(isinstance(item, str | list) for item in inputs):
        raise Refusal(400, "bad_input", f"'input' must be a text or a list of 1 to {MAX_ANSWERS} texts", param="input")
    size = body.get("dimensions", DEFAULT_DIMENSIONS)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_DIMENSIONS:
        raise Refusal(400, "bad_dimensions", f"'dimensions' must be from 1 to {MAX_DIMENSIONS}", param="dimensions")
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refusal(400, "bad_format", "'encoding_format' must be 'float' or 'base64'", param="encoding_format")
    texts = [item if isinstance(item, str) else jsonio.dumps(item) for item in inputs]
    prompt = sum(map(count_tokens, texts))
    vectors = [_vector(text, size, form) for text in texts]
    answer = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(vectors)],
        "model": request.model.id,
        "usage": {"prompt_tokens": prompt, "total_tokens": prompt},
    }
    return ProviderReply(200, answer, prompt, 0)


def _vector(text: str, size: int, form: str) -> list[float] | str:
    """A unit vector that depends on `text` alone: equal texts are equal, others nearly orthogonal."""
    draws = Draws(0, text, "embedding")
    raw = [2.0 * draws.unit() - 1.0 for _ in range(size)]
    norm = sum(x * x for x in raw) ** 0.5 or 1.0
    vector = [x / norm for x in raw]
    return vector if form == "float" else base64.b64encode(struct.pack(f"<{size}f", *vector)).decode("ascii")
