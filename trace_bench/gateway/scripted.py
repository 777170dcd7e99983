"""Scripted models: built-in models that answer by the rules of a file (`trace_bench.gateway.script`).

Offline and deterministic: an answer depends on the script, the seed of the job, the request, and the place of the call:
its slot, or where a client sends none, how many calls without one the job has made. Nothing is remembered here, so
threads, order, and a controller that is started anew change nothing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import LlmTry
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.proposals import Variable, written
from trace_bench.gateway.script import PLACEHOLDER, Answer, Match, Rule, Script, Step
from trace_bench.gateway.stub import StubProvider, count_tokens, decode_variables

MAX_CHOICES = 128
MAX_ANSWERS = 2048
_REFUSED = frozenset(range(400, 500)) - {408, 409, 425, 429}
"""Statuses that a provider's client does not try again after: the provider's own refusal, which is passed on."""


@dataclass(frozen=True)
class _Asked:
    """What rules look at, and what templates name.

    Attributes:
        text, last: of all messages, and of the last one.
        fields: by name; what a request does not have is None.
    """

    text: str
    last: str
    fields: Mapping[str, Any]
    variables: tuple[Variable, ...]
    path: str


class ScriptedProvider:
    """The provider behind a model ``scripted:FILE``. Keeps no state."""

    name = "scripted"
    wants_hints = True

    def __init__(self, script: Script) -> None:
        rules = script.rules
        self._script = script
        everything = [*rules.rules, *([rules.default] if rules.default is not None else [])]
        self.paid = rules.prices is not None or any(rule.usd for rule in everything)
        self.quick = not any(rule.latency for rule in everything)

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Answer by the first rule that matches.

        Raises:
            Refusal: none does, or its template names what this request does not have.
            ProviderError: the rule says that no answer comes.
        """
        asked = _asked(request)
        for rule in self._script.rules.rules:
            groups = _match(rule.match, asked)
            if groups is not None:
                return self._reply(request, asked, rule, groups)
        if request.path == "/v1/embeddings":
            return StubProvider().complete(request)
        if self._script.rules.default is None:
            raise Refusal(400, "no_rule", "no rule of the model's script matches this request, and it has no default")
        return self._reply(request, asked, self._script.rules.default, {})

    def _reply(
        self, request: ProviderRequest, asked: _Asked, rule: Rule, groups: Mapping[str, str | None]
    ) -> ProviderReply:
        if rule.latency:
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
        answer = rule.answer(asked.fields["number"])
        filled = _Filled(asked, groups, {**asked.fields, **groups})
        content, calls, moved = filled.content(answer)
        prompt = count_tokens(asked.text)
        written = content + "".join(call["function"]["arguments"] for call in calls)
        completion = count_tokens(written) * _choices(request.body)
        prices = self._script.rules.prices
        cost = rule.usd + ((prompt * prices.prompt + completion * prices.completion) / 1e6 if prices else 0.0)
        place = (request.hints.slot if request.hints else None) or f"{request.request_hash} {request.number}"
        name = f"scripted-{Draws(request.seed, place, 'id').hex(24)}"
        body = _body(request, name, content, calls, prompt, completion)
        return ProviderReply(200, body, prompt, completion, cost_usd=cost, inert=not moved, tries=tries)


# -- matching -----------------------------------------------------------------------------------------------------


def _asked(request: ProviderRequest) -> _Asked:
    hints = request.hints
    slot = _slot(hints.slot) if hints is not None and hints.slot is not None else {}
    messages = _messages(request.body)
    step = slot.get("step")
    fields = {
        "model": request.body.get("model") or request.model.id,
        "phase": request.phase,
        "seed": request.seed,
        "step": step,
        "candidate": slot.get("candidate"),
        "proposal": slot.get("proposal"),
        "attempt": slot.get("attempt"),
        "number": max(step, 1) if isinstance(step, int) else request.number,
        "turn": 1 + sum(role == "assistant" for role, _ in messages),
    }
    variables = decode_variables(hints.variables) if hints is not None and hints.variables is not None else ()
    texts = [text for _, text in messages]
    return _Asked("\n".join(texts), texts[-1] if texts else "", fields, variables, request.path)


def _slot(text: str) -> dict[str, int | str]:
    """The parts of a slot, ``step=0;candidate=…``; of one in another form, none."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return {k: int(v) if k != "candidate" and re.fullmatch(r"[0-9]{1,15}", v) else v for k, v in parts.items()}


def _messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message; of the older kinds of request, the prompt or the input."""
    given: Any = next((body[key] for key in ("messages", "input", "prompt") if key in body), [])
    items = given if isinstance(given, list) else [given]
    found = [("system", body["instructions"])] if isinstance(body.get("instructions"), str) else []
    for item in items:
        if isinstance(item, Mapping):
            found.append((str(item.get("role", "user")), _text(item.get("content", item.get("output", "")))))
        else:
            found.append(("user", item if isinstance(item, str) else jsonio.dumps(item)))
    return found


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    return content if isinstance(content, str) else ""


def _match(match: Match, asked: _Asked) -> dict[str, str | None] | None:
    """The named groups of `match`, or None if the request is not of its kind."""
    text = asked.last if match.last else asked.text
    for name in ("model", "phase", "candidate"):
        wanted = getattr(match, name)
        if wanted is not None and wanted != asked.fields[name]:
            return None
    for name in ("step", "proposal", "attempt", "number", "turn"):
        numbers = getattr(match, name)
        if numbers is not None and asked.fields[name] not in numbers:
            return None
    if match.path is not None and match.path != asked.path:
        return None
    if match.contains is not None and not all(part in text for part in match.contains):
        return None
    if match.regex is None:
        return {}
    found = re.search(match.regex, text, re.DOTALL)
    return None if found is None else found.groupdict()


# -- answering ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Filled:
    """Fills an answer's templates."""

    asked: _Asked
    groups: Mapping[str, str | None]
    names: Mapping[str, Any]

    def content(self, answer: Answer) -> tuple[str, list[dict[str, Any]], bool]:
        """Text and calls of tools; and whether it changes anything (only a step can fail to)."""
        if answer.steps is not None:
            suggestion = self._suggestion(answer.steps)
            reasoning = f"The script changes {', '.join(suggestion) or 'nothing'}."
            return written(self.asked.variables, suggestion, reasoning), [], bool(suggestion)
        if answer.tools is not None:
            calls = [
                {
                    "id": f"call_{index}",
                    "type": "function",
                    "function": {"name": tool.name, "arguments": jsonio.dumps(self.fill(tool.arguments))},
                }
                for index, tool in enumerate(answer.tools)
            ]
            return "", calls, True
        if answer.json_ is not None:
            return jsonio.dumps(self.fill(answer.json_)), [], True
        return str(self._text(answer.text or "")), [], True

    def fill(self, value: Any) -> Any:
        if isinstance(value, str):
            alone = PLACEHOLDER.fullmatch(value)
            return self._value(alone.group(1)) if alone else self._text(value)
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill(item) for item in value]
        return value

    def _text(self, template: str) -> str:
        return PLACEHOLDER.sub(lambda found: _shown(self._value(found.group(1))), template)

    def _value(self, name: str) -> Any:
        if name.startswith("variables."):
            wanted = name.removeprefix("variables.")
            value: Any = next((v.value for v in self.asked.variables if wanted in _names(v)), None)
        else:
            value = self.names.get(name)
        if value is None:
            raise Refusal(400, "no_value", f"the model's script names ${{{name}}}, which this request does not have")
        return value

    def _suggestion(self, steps: Mapping[str, Step]) -> dict[str, Any]:
        suggestion = {}
        for variable in self.asked.variables:
            step = next((steps[name] for name in (*_names(variable), "*") if name in steps), None)
            if step is None:
                continue
            new = self.fill(step.value) if step.value is not None else _stepped(variable, step)
            if new is not None and new != variable.value:
                suggestion[variable.name] = new
        return suggestion


def _names(variable: Variable) -> tuple[str, ...]:
    """What a script may call it: as the prompt does (``x0``), or as the task does (``x``)."""
    return (variable.name, variable.name.removesuffix("0"))


def _stepped(variable: Variable, step: Step) -> Any:
    """The value after `step`; None where it is for another kind of variable."""
    if step.alternative is not None:
        return variable.alternatives[step.alternative % len(variable.alternatives)] if variable.alternatives else None
    if variable.kind in ("code", "text"):
        return None
    old = float(variable.value)
    low, high = variable.bounds if variable.bounds is not None else (-math.inf, math.inf)
    if step.add is not None:
        new = old + step.add
    elif step.multiply is not None:
        new = old * step.multiply
    else:
        target = {"low": low, "high": high}.get(str(step.towards), step.towards)
        if not isinstance(target, int | float) or not math.isfinite(target):
            return None  # the variable has no such bound
        way = (target - old) * step.share
        new = old + (way if step.by is None else math.copysign(min(abs(way), step.by), way))
    new = min(max(new, low), high)
    if not math.isfinite(new):
        return None
    return new if variable.kind == "float" else round(new)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else jsonio.dumps(value)


# -- the bodies of OpenAI's API -----------------------------------------------------------------------------------


def _body(
    request: ProviderRequest, name: str, content: str, calls: list[dict[str, Any]], prompt: int, completion: int
) -> dict[str, Any]:
    total = prompt + completion
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    if request.path == "/v1/responses":
        return {
            "id": f"resp-{name}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": request.body.get("instructions"),
            "model": request.model.id,
            "output": _output(content, calls),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": completion,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": total,
            },
        }
    reason = "tool_calls" if calls else "stop"
    if request.path == "/v1/completions":
        choice: dict[str, Any]
        kind, choice = "text_completion", {"text": content, "logprobs": None, "finish_reason": reason}
    else:
        message: dict[str, Any] = {"role": "assistant", "content": content or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        kind, choice = "chat.completion", {"message": message, "logprobs": None, "finish_reason": reason}
    choices = [{"index": index, **choice} for index in range(_choices(request.body))]
    head = {"id": f"chatcmpl-{name}", "object": kind, "created": 0, "model": request.model.id}
    return {**head, "choices": choices, "usage": usage}


def _output(content: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if calls:
        return [
            {"type": "function_call", "id": f"fc_{c['id']}", "call_id": c["id"], "status": "completed", **c["function"]}
            for c in calls
        ]
    part = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
    return [{"type": "message", "id": "msg_0", "status": "completed", "role": "assistant", "content": [part]}]


def _choices(body: Mapping[str, Any]) -> int:
    """How many answers are asked for: ``n``, of an older request for each of its prompts."""
    n, prompts = body.get("n"), body.get("prompt")
    several = isinstance(prompts, list) and all(isinstance(prompt, str | list) for prompt in prompts)
    each = n if isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= MAX_CHOICES else 1
    choices = each * max(1, len(prompts) if several and isinstance(prompts, list) else 1)
    if choices > MAX_ANSWERS:
        raise Refusal(400, "bad_prompt", f"'prompt' and 'n' must come to at most {MAX_ANSWERS} answers", param="prompt")
    return choices
