"""Scripted models: built-in models that answer by the rules of a file (`trace_bench.gateway.script`).

They are offline and deterministic: an answer depends on the script, the seed of the job, the request, and the place of
the call. That is its slot, or the number of calls without one that the job has made. A provider keeps no state, so
threads, the order of calls and a restarted controller change nothing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmTry
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.bodies import answer_body, choices_of, count_tokens, messages_of
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.fields import EMBEDDINGS
from trace_bench.gateway.script import PLACEHOLDER, Match, Rule, Rules, Step
from trace_bench.gateway.stub import embed
from trace_bench.gateway.variables import Variable, answer_text, variables_of

_REFUSED = frozenset(range(400, 500)) - {408, 409, 425, 429}
"""Statuses that clients do not retry: the provider's own refusal, which is passed on."""


class ScriptedProvider:
    """The provider behind a model ``scripted:FILE``."""

    name = "scripted"
    uses_hints = True

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.paid = rules.prices is not None
        self.quick = not any(rule.latency for rule in (*rules.rules, *filter(None, (rules.default,))))

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Answer by the first rule that matches.

        Raises:
            Refusal: none does, or its template names what this request does not have.
            ProviderError: the rule says that no answer comes.
        """
        call = _Call.of(request)
        for rule in self._rules.rules:
            groups = _groups(rule.match, call)
            if groups is not None:
                return self._reply(request, call, rule, groups)
        if request.path == EMBEDDINGS:
            return embed(request)
        if self._rules.default is None:
            raise Refusal(400, "no_rule", "no rule of the model's script matches this request, and it has no default")
        return self._reply(request, call, self._rules.default, {})

    def _reply(self, request: ProviderRequest, call: _Call, rule: Rule, groups: Mapping[str, Any]) -> ProviderReply:
        time.sleep(rule.latency)
        tries: tuple[LlmTry, ...] = ()
        if (fail := rule.fail) is not None:
            tries = (LlmTry(status=fail.status, error=fail.message),) * (fail.tries or 1)
            if fail.tries is None and fail.status in _REFUSED:
                body = {"error": {"message": fail.message, "type": "scripted", "param": None, "code": None}}
                return ProviderReply(fail.status, body, tries=tries)
            if fail.tries is None:
                raise ProviderError(f"status {fail.status}: {fail.message}", tries=tries)
            tries += (LlmTry(status=200),)
        text, tools, moved = _answer(rule, _Template({**call.fields, **groups}, call.variables))
        texts = [text] * choices_of(request.body)
        prompt = count_tokens(call.text)
        completion = count_tokens(text + "".join(tool["function"]["arguments"] for tool in tools)) * len(texts)
        prices = self._rules.prices
        cost = (prompt * prices.prompt + completion * prices.completion) / 1e6 if prices else 0.0
        place = (request.hints.slot if request.hints else None) or f"{request.request_hash} {request.number}"
        name = f"scripted-{Draws(request.seed, place, 'id').hex(24)}"
        answer = answer_body(request, name, texts, prompt, completion, tools)
        return ProviderReply(200, answer, prompt, completion, cost_usd=cost, inert=not moved, tries=tries)


@dataclass(frozen=True)
class _Call:
    """What rules match, and what templates name.

    Attributes:
        text, last: of all messages, and of the last one.
        fields: by name; None for what the request does not have.
    """

    text: str
    last: str
    fields: Mapping[str, Any]
    variables: list[Variable]

    @classmethod
    def of(cls, request: ProviderRequest) -> _Call:
        slot = _slot((request.hints.slot if request.hints else None) or "")
        messages = messages_of(request.body)
        step = slot.get("step")
        fields = {
            "model": request.body.get("model") or request.model.id,
            "phase": request.phase,
            "seed": request.seed,
            **{name: slot.get(name) for name in ("step", "candidate", "proposal", "attempt")},
            "number": max(step, 1) if isinstance(step, int) else request.number,
            "turn": 1 + sum(role == "assistant" for role, _ in messages),
        }
        texts = [text for _, text in messages]
        return cls("\n".join(texts), texts[-1] if texts else "", fields, variables_of(request))


def _slot(text: str) -> dict[str, int | str]:
    """The parts of a slot, ``step=0;candidate=…``; none of a slot in another form."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return {k: int(v) if k != "candidate" and re.fullmatch(r"[0-9]{1,15}", v) else v for k, v in parts.items()}


def _groups(match: Match, call: _Call) -> dict[str, Any] | None:
    """The named groups of `match`; None if it does not match `call`."""
    text = call.last if match.last else call.text
    for name in ("phase", "candidate"):
        if getattr(match, name) not in (None, call.fields[name]):
            return None
    for name in ("step", "proposal", "attempt", "number", "turn"):
        numbers = getattr(match, name)
        if numbers is not None and call.fields[name] not in numbers:
            return None
    if not all(part in text for part in match.contains or ()):
        return None
    found = re.search(match.regex or "", text, re.DOTALL)
    return None if found is None else found.groupdict()


def _answer(rule: Rule, template: _Template) -> tuple[str, list[dict[str, Any]], bool]:
    """Text and calls of tools, and whether the answer changes anything; only `set` can fail to."""
    if rule.steps is not None:
        suggestion = {}
        for variable in template.variables:
            names = (*_names(variable), "*")
            step = next((rule.steps[name] for name in names if name in rule.steps), None)
            if step is None:
                continue
            new = template.fill(step.value) if step.value is not None else _stepped(variable, step)
            if new is not None and new != variable.value:
                suggestion[variable.name] = new
        reasoning = f"The script changes {', '.join(suggestion) or 'nothing'}."
        return answer_text(template.variables, suggestion, reasoning), [], bool(suggestion)
    if rule.tools is not None:
        functions = [
            {"name": tool.name, "arguments": jsonio.dumps(template.fill(tool.arguments))} for tool in rule.tools
        ]
        return "", [{"id": f"call_{n}", "type": "function", "function": one} for n, one in enumerate(functions)], True
    if rule.json_ is not None:
        return jsonio.dumps(template.fill(rule.json_)), [], True
    texts = rule.text or ("",)
    return template.text(texts[min(max(template.names["number"], 1), len(texts)) - 1]), [], True


@dataclass(frozen=True)
class _Template:
    """Fills the templates of an answer."""

    names: Mapping[str, Any]
    variables: list[Variable]

    def fill(self, value: Any) -> Any:
        """`value` with its texts filled; a text that is one placeholder becomes the value itself."""
        if isinstance(value, str):
            alone = PLACEHOLDER.fullmatch(value)
            return self._value(alone[1]) if alone else self.text(value)
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list | tuple) else value

    def text(self, template: str) -> str:
        def shown(found: re.Match[str]) -> str:
            value = self._value(found[1])
            return value if isinstance(value, str) else jsonio.dumps(value)

        return PLACEHOLDER.sub(shown, template)

    def _value(self, name: str) -> Any:
        value = self.names.get(name)
        if name.startswith("variables."):
            wanted = name.removeprefix("variables.")
            value = next((v.value for v in self.variables if wanted in _names(v)), None)
        if value is None:
            raise Refusal(400, "no_value", f"the model's script names ${{{name}}}, which this request does not have")
        return value


def _names(variable: Variable) -> tuple[str, ...]:
    """The names that a script may use: that of the prompt (``x0``) or that of the task (``x``)."""
    return (variable.name, variable.name.removesuffix("0"))


def _stepped(variable: Variable, step: Step) -> Any:
    """The value after `step`; None if the step does not apply to the variable."""
    if step.alternative is not None:
        return variable.alternatives[step.alternative % len(variable.alternatives)] if variable.alternatives else None
    if variable.kind in ("code", "text"):
        return None
    old = float(variable.value)
    low, high = variable.bounds if variable.bounds is not None else (-math.inf, math.inf)
    move = step.add if step.add is not None else ((step.towards or 0.0) - old) * step.share
    new = min(max(old + move, low), high)
    if not math.isfinite(new):
        return None
    return new if variable.kind == "float" else round(new)
