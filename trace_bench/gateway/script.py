"""Scripts: YAML files with rules by which a built-in model answers. They hold no code.

A rule says which requests it is for (`Match`) and what it answers: a text, a JSON object, calls of tools, or new values
of variables. See ``docs/how-to/scripted-models.md``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

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
from trace_bench.config.llms import PricesConfig
from trace_bench.config.messages import sentence
from trace_bench.config.reader import read
from trace_bench.config.source import Problem, Source
from trace_bench.config.values import Count, Text
from trace_bench.errors import ConfigError

PLACEHOLDER = re.compile(r"\$\{([^{}\n]*)\}")
FIELDS = ("model", "phase", "seed", "step", "candidate", "proposal", "attempt", "number", "turn")
"""What a template may name besides the groups of its rule's pattern and ``variables.NAME``."""
REMOVED = {
    "sequence": "give 'text' a list, or write one rule for each 'number'",
    "then": "the last text of a list stays; list the numbers of a rule in 'match: {number: [N, …]}'",
    "usd": "set 'prices' at the top of the script",
    "path": "a rule answers all endpoints alike",
    "multiply": "use 'add', 'towards' or 'value'",
    "by": "use 'add', or 'share' of 'towards'",
}
"""Keys of earlier versions, and what to use instead."""


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return value


def _as_list(value: Any) -> Any:
    return value if value is None or isinstance(value, list | tuple) else [value]


Texts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), BeforeValidator(_as_list), Field(min_length=1)
]
Numbers = Annotated[tuple[Count, ...], Strict(False), BeforeValidator(_as_list), Field(min_length=1)]


class Part(BaseModel):
    """Base of a script's parts: as strict as a config."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Match(Part):
    """Which requests a rule is for. A condition that is not given is not checked."""

    contains: Texts | None = None
    """All of these texts occur in the text of the messages."""
    regex: Annotated[str, AfterValidator(_pattern)] | None = None
    """Python's; found anywhere in the text, ``.`` matches line ends. Its named groups can be used in the answer."""
    last: bool = False
    """Look at the last message alone."""
    phase: Text | None = None
    candidate: Text | None = None
    step: Numbers | None = None
    proposal: Numbers | None = None
    attempt: Numbers | None = None
    number: Numbers | None = None
    """From 1: the step of the search if the client sends slots, else the number of the call in its job."""
    turn: Numbers | None = None
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
            raise ValueError("'share' goes with 'towards'")
        return self


class ToolCall(Part):
    """A tool that the answer calls; texts in `arguments` are templates."""

    name: Text
    arguments: FrozenMap = Field(default_factory=dict)


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
    text: Annotated[tuple[str, ...] | None, Strict(False), BeforeValidator(_as_list), Field(min_length=1)] = None
    """A template. Of several, the n-th call gets the n-th, where n is ``number``; the last one stays."""
    json_: Annotated[FrozenMap | None, Field(alias="json")] = None
    """An object; texts in it are templates, and a text that is one placeholder keeps the type of its value."""
    tools: Annotated[tuple[ToolCall, ...] | None, Strict(False), Field(min_length=1)] = None
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
        known = {*FIELDS, *(re.compile(self.match.regex).groupindex if self.match.regex else ())}
        values = [step.value for step in (self.steps or {}).values()]
        arguments = [tool.arguments for tool in self.tools or ()]
        for text in _strings([self.text, self.json_, arguments, values]):
            for name in PLACEHOLDER.findall(text):
                if name not in known and not re.fullmatch(r"variables\..+", name):
                    raise ValueError(f"names ${{{name}}}, which is none of {', '.join(sorted(known))}, variables.NAME")
        return self


class Rules(Part):
    """The content of a script's file."""

    rules: Annotated[tuple[Rule, ...], Strict(False)] = ()
    default: Rule | None = None
    """For requests that no rule matches. Without it they are refused."""
    prices: PricesConfig | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.rules and self.default is None:
            raise ValueError("has no rules; write at least a 'default'")
        if self.default is not None and "match" in self.default.model_fields_set:
            raise ValueError("'default' is for requests that no rule matches, and takes no 'match'")
        return self


_KEYS = sorted(
    field.alias or name
    for part in (Rules, Rule, Match, Step, ToolCall, Fail, PricesConfig)
    for name, field in part.model_fields.items()
)


@dataclass(frozen=True)
class Script:
    """The file of a script.

    Attributes:
        sha256: hex; identifies the model that the script makes.
    """

    path: Path
    text: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


def read_script(path: Path) -> Script:
    """The script in the file at `path`, which is not checked yet.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return Script(path, path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{path}: does not exist; check the path of the script") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None


def parse_rules(script: Script) -> Rules:
    """The rules of `script`.

    Raises:
        ConfigError: it is wrong. One line per problem: ``FILE, line N: key: what is wrong``.
    """
    problems: list[Problem] = []
    root = read(script.path, problems)
    source = Source(str(script.path), root)
    try:
        rules = Rules.model_validate(root)
        if not problems:
            return rules
    except ValidationError as error:
        # A list with wrong entries counts as too short as well.
        found = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
        problems += [_problem(source, dict(e)) for e in found]
    ordered = sorted(problems, key=lambda p: (p.line is None, p.line or 0))
    raise ConfigError("\n".join(dict.fromkeys(source.sentence(problem) for problem in ordered)))


def _problem(source: Source, error: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors as a problem of the script."""
    # Pydantic also names the branch of a union, which is not in the file.
    path = tuple(p for p in error["loc"] if isinstance(p, int) or not p.startswith(("float", "int", "str")))
    if error["type"] == "extra_forbidden":
        key = str(path[-1])
        instead = REMOVED.get(key, "remove it: a job has one model" if path[-2:] == ("match", "model") else "")
        if instead:
            return source.problem(path, f"{source.shown(path)}: scripts have no '{key}' any more; {instead}")
        return source.problem(path, f"unknown key {source.shown(path)!r}{hint(key, _KEYS)}")
    if error["type"] == "value_error":
        text = str(error["ctx"]["error"])
        return source.problem(path, f"{source.shown(path)}: {text}" if path else f"the script {text}")
    if error["type"] == "missing":
        return source.problem(path[:-1], f"{source.shown(path)} is missing; add it")
    return sentence(source, {**error, "loc": path})


def _exactly_one(**values: object) -> None:
    """Raises ValueError unless exactly one of the keys is given."""
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(map(repr, given)) or "none"
        raise ValueError(f"takes exactly one of {', '.join(values)}, and has {found}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
