"""Scripts: YAML files with rules by which a built-in model answers. No code, nothing that is evaluated.

A rule says which requests it is for (`Match`) and what it answers: a text, a JSON object, calls of tools, a step that
changes variables, or a sequence of those. See ``docs/how-to/scripted-models.md``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    model_validator,
)

from trace_bench.arguments import hint
from trace_bench.config.frozen import FrozenMap
from trace_bench.config.messages import sentence
from trace_bench.config.models import PricesConfig
from trace_bench.config.reader import read
from trace_bench.config.source import Problem, Source
from trace_bench.config.values import Count, Text, Usd
from trace_bench.errors import ConfigError

PLACEHOLDER = re.compile(r"\$\{([^{}\n]*)\}")
FIELDS = ("model", "phase", "seed", "step", "candidate", "proposal", "attempt", "number", "turn")
"""What a template may name besides the groups of its rule's pattern and ``variables.NAME``."""
_STEP_KINDS = ("add", "multiply", "towards", "value", "alternative")


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return value


def _several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Texts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), BeforeValidator(_several), Field(min_length=1)
]
Numbers = Annotated[tuple[Count, ...], Strict(False), BeforeValidator(_several), Field(min_length=1)]
Pattern = Annotated[str, AfterValidator(_pattern)]


class Part(BaseModel):
    """Base: as strict as a config."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Match(Part):
    """Which requests a rule is for; what is not given, is not asked for."""

    contains: Texts | None = None
    """All of them occur in the text of the messages."""
    regex: Pattern | None = None
    """Python's; found anywhere in the text, ``.`` matches line ends. Its named groups can be used in the answer."""
    last: bool = False
    """Look at the last message alone."""
    model: Text | None = None
    """What the request says."""
    phase: Text | None = None
    path: Text | None = None
    """Such as ``/v1/chat/completions``."""
    candidate: Text | None = None
    step: Numbers | None = None
    proposal: Numbers | None = None
    attempt: Numbers | None = None
    number: Numbers | None = None
    """From 1: of the search's step where the client sends slots, of the call in its job where it does not."""
    turn: Numbers | None = None
    """1 and the number of answers in the conversation so far."""


class Step(Part):
    """How one variable changes; bounds hold, whole numbers stay whole."""

    add: float | None = None
    multiply: float | None = None
    towards: float | Literal["low", "high"] | None = None
    """Move to this number, or bound …"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """… by this part of the distance …"""
    by: Annotated[float, Field(gt=0)] | None = None
    """… or by this much at most."""
    value: str | int | float | None = None
    alternative: int | None = None
    """The n-th (from 0; from the end if negative) of the values that the task offers; past the last it begins again."""

    @model_validator(mode="after")
    def _one(self) -> Step:
        _exactly_one(self, _STEP_KINDS)
        if self.towards is None and self.model_fields_set & {"share", "by"}:
            raise ValueError("'share' and 'by' go with 'towards'")
        return self


class ToolCall(Part):
    """A tool that the answer calls; texts in `arguments` are templates."""

    name: Text
    arguments: FrozenMap = Field(default_factory=dict)


class Answer(Part):
    """One answer, in one of four forms."""

    text: str | None = None
    """A template."""
    json_: Annotated[FrozenMap | None, Field(alias="json")] = None
    """An object; texts in it are templates, and one that is a placeholder alone keeps the type of its value."""
    tools: Annotated[tuple[ToolCall, ...] | None, Strict(False), Field(min_length=1)] = None
    steps: Annotated[dict[str, Step] | None, Field(alias="set", min_length=1)] = None
    """By the name of a variable; ``*`` is every variable that is not named."""

    @model_validator(mode="after")
    def _one(self) -> Answer:
        _exactly_one(self, ("text", "json", "tools", "set"))
        return self


class Fail(Part):
    """What goes wrong before an answer comes, or instead of one."""

    status: Annotated[int, Field(ge=400, le=599)] = 500
    tries: Annotated[int, Field(ge=1, le=100)] | None = None
    """So many tries fail and the next one succeeds; None: there is no answer."""
    message: Text = "the script says so"


def _answer(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


class Rule(Part):
    """One rule. The first that matches a request answers it."""

    name: Text | None = None
    match: Match = Match()
    text: str | None = None
    json_: Annotated[FrozenMap | None, Field(alias="json")] = None
    tools: Annotated[tuple[ToolCall, ...] | None, Strict(False), Field(min_length=1)] = None
    steps: Annotated[dict[str, Step] | None, Field(alias="set", min_length=1)] = None
    sequence: Annotated[
        tuple[Annotated[Answer, BeforeValidator(_answer)], ...] | None, Strict(False), Field(min_length=1)
    ] = None
    """The k-th asking gets the k-th answer; k is ``number``."""
    then: Literal["repeat", "last"] = "last"
    """What comes after the sequence: it begins again, or its last answer stays."""
    usd: Usd = 0.0
    """What a call costs, besides `Script.prices`."""
    latency: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Seconds until the answer comes."""
    fail: Fail | None = None

    @model_validator(mode="after")
    def _one(self) -> Rule:
        if self.fail is None or self.fail.tries is not None or self._given():
            _exactly_one(self, ("text", "json", "tools", "set", "sequence"))
        if "then" in self.model_fields_set and self.sequence is None:
            raise ValueError("'then' goes with 'sequence'")
        known = {*FIELDS, *(re.compile(self.match.regex).groupindex if self.match.regex else ())}
        for text in self._templates():
            for name in PLACEHOLDER.findall(text):
                if name not in known and not (name.startswith("variables.") and len(name) > len("variables.")):
                    raise ValueError(f"names ${{{name}}}, which is none of {', '.join(sorted(known))}, variables.NAME")
        return self

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What it can answer; empty for a rule that only fails."""
        if self.sequence is not None:
            return self.sequence
        if not self._given():
            return ()
        return (Answer.model_construct(text=self.text, json_=self.json_, tools=self.tools, steps=self.steps),)

    def answer(self, number: int) -> Answer:
        """The answer to the `number`-th asking, from 1."""
        answers = self.answers
        index = max(number, 1) - 1
        return answers[index % len(answers) if self.then == "repeat" else min(index, len(answers) - 1)]

    def _given(self) -> bool:
        return any(value is not None for value in (self.text, self.json_, self.tools, self.steps, self.sequence))

    def _templates(self) -> Iterator[str]:
        for answer in self.answers:
            yield from _strings([answer.text, answer.json_, [tool.arguments for tool in answer.tools or ()]])
            yield from (step.value for step in (answer.steps or {}).values() if isinstance(step.value, str))


class Rules(Part):
    """The whole of a script's file."""

    rules: Annotated[tuple[Rule, ...], Strict(False)] = ()
    default: Rule | None = None
    """For what no rule matches; without it such a request is refused."""
    prices: PricesConfig | None = None

    @model_validator(mode="after")
    def _some(self) -> Rules:
        if not self.rules and self.default is None:
            raise ValueError("has no rules; write at least a 'default'")
        if self.default is not None and "match" in self.default.model_fields_set:
            raise ValueError("'default' is for whatever no rule matches, and takes no 'match'")
        return self


@dataclass(frozen=True)
class Script:
    """A script that has been checked.

    Attributes:
        sha256: of the file, hex: what identifies the model that it makes.
        text: the file.
    """

    rules: Rules
    sha256: str
    text: bytes


def load_script(path: Path) -> Script:
    """The script in the file at `path`.

    Raises:
        ConfigError: it cannot be read, or is wrong. One line per problem: ``FILE, line N: key: what is wrong``.
    """
    if not path.exists():
        raise ConfigError(f"{path}: does not exist; check the path of the script")
    problems: list[Problem] = []
    try:
        root = read(path, problems)
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    source = Source(str(path), root)
    rules: Rules | None = None
    try:
        rules = Rules.model_validate(root)
    except ValidationError as error:
        # A list with wrong entries is called too short as well.
        told = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
        problems += [_sentence(source, dict(e)) for e in told]
    if problems or rules is None:
        ordered = sorted(problems, key=lambda p: (p.line is None, p.line or 0))
        raise ConfigError("\n".join(dict.fromkeys(source.sentence(problem) for problem in ordered)))
    return Script(rules, hashlib.sha256(text).hexdigest(), text)


def _sentence(source: Source, error: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors as a problem of the script."""
    # Pydantic names the branch of a union too, which stands nowhere in the file.
    path = tuple(p for p in error["loc"] if isinstance(p, int) or not p.startswith(("float", "literal", "int", "str")))
    if error["type"] == "extra_forbidden":
        known = _keys_at(path[:-1])
        return source.problem(path, f"unknown key {source.shown(path)!r}{hint(str(path[-1]), known)}")
    if error["type"] == "value_error":
        text = str(error["ctx"]["error"])
        return source.problem(path, f"{source.shown(path)}: {text}" if path else f"the script {text}")
    if error["type"] == "missing":
        return source.problem(path[:-1], f"{source.shown(path)} is missing; add it")
    return sentence(source, {**error, "loc": path})


def _keys_at(path: tuple[str | int, ...]) -> list[str]:
    """The keys that may stand in the mapping at `path`."""
    words = [part for part in path if isinstance(part, str)]
    section: type[Part] = Rules
    for above, word in zip(["", *words], words, strict=False):
        named: dict[str, type[Part]] = {
            "rules": Rule,
            "default": Rule,
            "match": Match,
            "sequence": Answer,
            "tools": ToolCall,
            "fail": Fail,
        }
        section = Step if above == "set" else named.get(word, section)
    if words and words[-1] == "prices":
        return list(PricesConfig.model_fields)
    return [field.alias or name for name, field in section.model_fields.items()]


def _exactly_one(section: Part, names: tuple[str, ...]) -> None:
    fields = {field.alias or name: name for name, field in type(section).model_fields.items()}
    given = [name for name in names if getattr(section, fields[name]) is not None]
    if len(given) != 1:
        found = " and ".join(map(repr, given)) or "none"
        raise ValueError(f"takes exactly one of {', '.join(names)}, and has {found}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
