"""Scripted models: built-in models that answer by the rules of a YAML file. See ``docs/how-to/scripted-models.md``.

They are offline and deterministic: an answer depends on the script, the seed of the job, the request, and the place of
the call. That is its slot, or the number of calls without one that the job has made. A provider keeps no state, so
threads, the order of calls and a restarted controller change nothing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from trace_bench.arguments import hint
from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmTry
from trace_bench.config.llms import PricesConfig
from trace_bench.config.messages import sentence
from trace_bench.config.reader import read
from trace_bench.config.source import Problem, Source
from trace_bench.config.values import Count, Text
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.bodies import answer_body, choices_of, count_tokens, messages_of
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.fields import EMBEDDINGS
from trace_bench.gateway.stub import embed
from trace_bench.gateway.variables import Variable, answer_text, variables_of

_PLACEHOLDER = re.compile(r"\$\{([^{}\n]*)\}")
_NUMBERS = ("step", "proposal", "attempt", "number", "turn")
_FIELDS = ("model", "phase", "seed", "candidate", *_NUMBERS)
"""Names for templates, besides the groups of a rule's pattern and ``variables.NAME``."""
_NOT_RETRIED = frozenset(range(400, 500)) - {408, 409, 425, 429}
"""Statuses of a provider's refusal, which is passed on."""


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return value


T = TypeVar("T")
Several = Annotated[
    list[T], BeforeValidator(lambda value: value if isinstance(value, list) else [value]), Field(min_length=1)
]
"""One value, or a list of values."""


class Part(BaseModel):
    """Base of a script's parts: as strict as a config."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Match(Part):
    """The requests that a rule is for. A missing condition is not checked."""

    contains: Several[Annotated[str, Field(min_length=1)]] | None = None
    """All of these texts occur in the text of the messages."""
    regex: Annotated[str, AfterValidator(_pattern)] = ""
    """Python's; found anywhere in the text, ``.`` matches line ends. Its named groups can be used in the answer."""
    last: bool = False
    """Look at the last message alone."""
    phase: Several[Text] | None = None
    candidate: Several[Text] | None = None
    step: Several[Count] | None = None
    proposal: Several[Count] | None = None
    attempt: Several[Count] | None = None
    number: Several[Count] | None = None
    """From 1: the step of the search if the client sends slots, else the number of the call in its job."""
    turn: Several[Count] | None = None
    """1 and the number of answers in the conversation so far."""


class Step(Part):
    """How one variable changes; bounds hold, and whole numbers stay whole."""

    add: float | None = None
    towards: float | None = None
    """Move to this number …"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """… by this part of the distance."""
    value: str | int | float | None = None
    alternative: int | None = None
    """The n-th (from 0; from the end if negative) of the values that the task offers; past the last it starts again."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _exactly_one(add=self.add, towards=self.towards, value=self.value, alternative=self.alternative)
        if self.towards is None and "share" in self.model_fields_set:
            raise ValueError("has a 'share' without 'towards'")
        return self


class ToolCall(Part):
    """A tool that the answer calls; texts in `arguments` are templates."""

    name: Text
    arguments: dict[str, Any] = {}


class Fail(Part):
    """A failure before the answer comes, or instead of it."""

    status: Annotated[int, Field(ge=400, le=599)] = 500
    tries: Annotated[int, Field(ge=1, le=100)] | None = None
    """So many tries fail and the next one succeeds; None: there is no answer."""
    message: Text = "the script says so"


class Rule(Part):
    """One rule. The first that matches a request answers it."""

    name: Text | None = None
    match: Match = Match()
    text: Several[str] | None = None
    """A template. Of several, the n-th call gets the n-th, where n is ``number``; the last one stays."""
    json_: Annotated[dict[str, Any] | None, Field(alias="json")] = None
    """An object; texts in it are templates, and a text that is one placeholder keeps the type of its value."""
    tools: Annotated[list[ToolCall], Field(min_length=1)] | None = None
    steps: Annotated[dict[str, Step] | None, Field(alias="set", min_length=1)] = None
    """By the name of a variable; ``*`` is every variable that is not named."""
    latency: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Seconds until the answer comes."""
    fail: Fail | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        answers = {"text": self.text, "json": self.json_, "tools": self.tools, "set": self.steps}
        if self.fail is None or self.fail.tries is not None or any(answer is not None for answer in answers.values()):
            _exactly_one(**answers)
        known = {*_FIELDS, *re.compile(self.match.regex).groupindex}
        values = [step.value for step in (self.steps or {}).values()]
        for text in _texts([self.text, self.json_, [tool.arguments for tool in self.tools or ()], values]):
            for name in _PLACEHOLDER.findall(text):
                if name not in known and not re.fullmatch(r"variables\..+", name):
                    raise ValueError(f"names ${{{name}}}, which is none of {', '.join(sorted(known))}, variables.NAME")
        return self


class Rules(Part):
    """The content of a script's file."""

    rules: list[Rule] = []
    default: Rule | None = None
    """For requests that no rule matches. Without it they are refused."""
    prices: PricesConfig | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.rules and self.default is None:
            raise ValueError("the script has no rules; write at least a 'default'")
        if self.default is not None and "match" in self.default.model_fields_set:
            raise ValueError("'default' is for requests that no rule matches, and takes no 'match'")
        return self


def read_rules(path: Path) -> Rules:
    """Read the script at `path`.

    Raises:
        ConfigError: it is wrong. One line per problem: ``FILE, line N: key: what is wrong``.
    """
    problems: list[Problem] = []
    source = Source(str(path), read(path, problems))
    try:
        rules = Rules.model_validate(source.root)
        if not problems:
            return rules
    except ValidationError as error:
        problems += [_problem(source, dict(detail)) for detail in error.errors(include_url=False)]
    ordered = sorted(problems, key=lambda p: (p.line is None, p.line or 0))
    raise ConfigError("\n".join(dict.fromkeys(source.sentence(problem) for problem in ordered)))


def _problem(source: Source, error: Mapping[str, Any]) -> Problem:
    # Pydantic also names the branch of a union, which is not in the file.
    path = tuple(p for p in error["loc"] if isinstance(p, int) or not p.startswith(("float", "int", "str")))
    if error["type"] != "extra_forbidden":
        return sentence(source, {**error, "loc": path})
    parts = (Rules, Rule, Match, Step, ToolCall, Fail, PricesConfig)
    keys = sorted(field.alias or name for part in parts for name, field in part.model_fields.items())
    return source.problem(path, f"unknown key {source.shown(path)!r}{hint(str(path[-1]), keys)}")


def _exactly_one(**values: object) -> None:
    """Raises ValueError unless exactly one of the keys has a value."""
    names = [name for name, value in values.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"takes exactly one of {', '.join(values)}, and has {' and '.join(names) or 'none'}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


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
        messages = [text for _, text in messages_of(request.body)]
        fields = _fields(request)
        for rule in self._rules.rules:
            if (groups := _groups(rule.match, messages, fields)) is not None:
                return self._reply(request, rule, messages, fields | groups)
        if request.path == EMBEDDINGS:
            return embed(request)
        if self._rules.default is None:
            raise Refusal(400, "no_rule", "no rule of the model's script matches this request, and it has no default")
        return self._reply(request, self._rules.default, messages, fields)

    def _reply(
        self, request: ProviderRequest, rule: Rule, messages: Sequence[str], names: dict[str, Any]
    ) -> ProviderReply:
        time.sleep(rule.latency)
        tries: tuple[LlmTry, ...] = ()
        if (fail := rule.fail) is not None:
            tries = (LlmTry(status=fail.status, error=fail.message),) * (fail.tries or 1)
            if fail.tries is None and fail.status in _NOT_RETRIED:
                body = {"error": {"message": fail.message, "type": "scripted", "param": None, "code": None}}
                return ProviderReply(fail.status, body, tries=tries)
            if fail.tries is None:
                raise ProviderError(f"status {fail.status}: {fail.message}", tries=tries)
            tries += (LlmTry(status=200),)
        text, tools, moved = _answer(rule, names, variables_of(request))
        texts = [text] * choices_of(request.body)
        prompt = count_tokens("\n".join(messages))
        completion = count_tokens(text + "".join(tool["function"]["arguments"] for tool in tools)) * len(texts)
        prices = self._rules.prices
        cost = (prompt * prices.prompt + completion * prices.completion) / 1e6 if prices else 0.0
        place = (request.hints.slot if request.hints else None) or f"{request.request_hash} {request.number}"
        name = f"scripted-{Draws(request.seed, place, 'id').hex(24)}"
        answer = answer_body(request, name, texts, prompt, completion, tools)
        return ProviderReply(200, answer, prompt, completion, cost_usd=cost, inert=not moved, tries=tries)


def _fields(request: ProviderRequest) -> dict[str, Any]:
    """The values that rules match and templates name; None for a value that the request does not have."""
    parts = dict(
        part.split("=", 1) for part in ((request.hints and request.hints.slot) or "").split(";") if "=" in part
    )
    slot: dict[str, Any] = {name: parts.get(name) for name in ("step", "candidate", "proposal", "attempt")}
    slot |= {k: int(v) for k, v in slot.items() if k != "candidate" and v and re.fullmatch(r"[0-9]{1,15}", v)}
    step = slot["step"]
    return {
        "model": request.body.get("model") or request.model.id,
        "phase": request.phase,
        "seed": request.seed,
        **slot,
        "number": max(step, 1) if isinstance(step, int) else request.number,
        "turn": 1 + sum(role == "assistant" for role, _ in messages_of(request.body)),
    }


def _groups(match: Match, messages: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The named groups of `match`; None if it does not match."""
    for name in ("phase", "candidate", *_NUMBERS):
        wanted = getattr(match, name)
        if wanted is not None and fields[name] not in wanted:
            return None
    text = "\n".join(messages[-1:] if match.last else messages)
    if not all(part in text for part in match.contains or ()):
        return None
    found = re.search(match.regex, text, re.DOTALL)
    return None if found is None else found.groupdict()


def _answer(rule: Rule, names: dict[str, Any], variables: Sequence[Variable]) -> tuple[str, list[dict[str, Any]], bool]:
    """Text, tool calls, and True if the answer changes anything; only `set` can fail to."""
    for variable in reversed(variables):
        names |= {f"variables.{name}": variable.value for name in _names(variable)}
    if rule.steps is not None:
        suggestion = {}
        for variable in variables:
            step = next((rule.steps[name] for name in (*_names(variable), "*") if name in rule.steps), None)
            if step is not None:
                new = _fill(step.value, names) if step.value is not None else _stepped(variable, step)
                if new is not None and new != variable.value:
                    suggestion[variable.name] = new
        reasoning = f"The script changes {', '.join(suggestion) or 'nothing'}."
        return answer_text(variables, suggestion, reasoning), [], bool(suggestion)
    if rule.tools is not None:
        calls = [(tool.name, jsonio.dumps(_fill(tool.arguments, names))) for tool in rule.tools]
        functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return "", [{"id": f"call_{n}", "type": "function", "function": one} for n, one in enumerate(functions)], True
    if rule.json_ is not None:
        return jsonio.dumps(_fill(rule.json_, names)), [], True
    texts = rule.text or [""]
    return _fill_text(texts[min(max(names["number"], 1), len(texts)) - 1], names), [], True


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


def _fill(value: Any, names: Mapping[str, Any]) -> Any:
    """`value` with its templates filled; a text that is one placeholder becomes the value itself."""
    if isinstance(value, str):
        alone = _PLACEHOLDER.fullmatch(value)
        return _value(alone[1], names) if alone else _fill_text(value, names)
    if isinstance(value, Mapping):
        return {key: _fill(item, names) for key, item in value.items()}
    return [_fill(item, names) for item in value] if isinstance(value, list) else value


def _fill_text(template: str, names: Mapping[str, Any]) -> str:
    def shown(placeholder: re.Match[str]) -> str:
        value = _value(placeholder[1], names)
        return value if isinstance(value, str) else jsonio.dumps(value)

    return _PLACEHOLDER.sub(shown, template)


def _value(name: str, names: Mapping[str, Any]) -> Any:
    if names.get(name) is None:
        raise Refusal(400, "no_value", f"the model's script names ${{{name}}}, which this request does not have")
    return names[name]
