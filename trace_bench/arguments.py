"""Named, typed arguments: the parameters of trainers and optimizers, and the ``eval_kwargs`` of tasks.

One set of rules for all of them: aliases, nearest names, types, bounds, choices, defaults. The caller says
where a key was written, so that every sentence can name file and line. Standard library only.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from trace_bench.errors import ConfigError

Where = Callable[[str], str]
"""``where(key)`` says where a key was written: ``FILE, line N: path.of.key``; ``where("")`` names what holds
it.
"""


@dataclass(frozen=True)
class Argument:
    """One argument that a config may give.

    Attributes:
        type: ``int``, ``float``, ``str``, ``bool``, ``list`` or ``dict``. None is accepted where it is the default.
        minimum, maximum: inclusive, for numbers.
        when: other arguments, with the values at which this one has an effect.
        pairs: for a list of ``NAME=VALUE`` texts, which may be written as a mapping too.
        endless, later, formerly: see `trace_bench.worker.training.Param`.
    """

    name: str
    type: type
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] | None = None
    aliases: tuple[str, ...] = ()
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    endless: Any = None
    later: bool = False
    formerly: tuple[Any, ...] = ()
    pairs: bool = False

    def __post_init__(self) -> None:
        if self.type is float and isinstance(self.default, int) and not isinstance(self.default, bool):
            object.__setattr__(self, "default", float(self.default))  # as any value given would be


_NOUNS: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of keys to values",
}


def describe(value: object) -> str:
    """`value` in a sentence, in the words of YAML and never longer than a few dozen characters."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
        return f"the number {text}" if text[0] != "a" else text
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "…")
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"


def hint(name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """The hint about an unknown name: the nearest of `known` and `also`, or all of `known` if they are few."""
    names = sorted(set(known))
    by_lower = {n.lower(): n for n in (*also, *names)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {by_lower[near[0]]!r}?"
    if not names:
        return "; there is nothing to set here"
    if len(names) <= 16:
        return f"; known are {', '.join(names)}"
    return ""


def find(arguments: Sequence[Argument], key: str) -> Argument | None:
    """The argument that `key` names, by its name or an alias, with hyphens for underscores or without."""
    name = key.replace("-", "_")
    return next((a for a in arguments if name == a.name or name in a.aliases), None)


def canonical(
    arguments: Sequence[Argument],
    given: Mapping[str, Any],
    where: Where,
    owner: str,
    problems: list[str],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """``{name: key as written}`` for `given`; unknown keys and double mentions are added to `problems`.

    Args:
        remedies: for names that `owner` does not take, the remedy to print in place of the nearest name.
    """
    written: dict[str, str] = {}
    for key in given:
        argument = find(arguments, key)
        if argument is None:
            known = hint(key, [a.name for a in arguments], [alias for a in arguments for alias in a.aliases])
            remedy = remedies.get(key.replace("-", "_"))
            problems.append(f"{where(key)}: {owner} takes no {key!r}{f'; {remedy}' if remedy else known}")
        elif argument.name in written:
            problems.append(
                f"{where(key)}: {key!r} and {written[argument.name]!r} are two names of one argument of "
                f"{owner}; keep one of them"
            )
        else:
            written[argument.name] = key
    return written


def checked(argument: Argument, value: Any, place: str, problems: list[str]) -> Any:
    """`value` as `argument` wants it (a whole number becomes a float where a float is due).

    What does not fit is added to `problems`, and None is returned for it.
    """
    if value is None and argument.default is None:
        return None
    if argument.type is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            problems.append(f"{place} must be a finite number, not {describe(value)}")
            return None
    if isinstance(value, tuple) and argument.type is list:
        value = list(value)
    if argument.pairs and isinstance(value, Mapping):
        value = [pair(name, item) for name, item in value.items()]
    is_stray_bool = isinstance(value, bool) and argument.type is not bool
    if is_stray_bool or not isinstance(value, argument.type):
        noun = _NOUNS.get(argument.type, f"a {argument.type.__name__}")
        quotes = "; put it in quotes" if argument.type is str and isinstance(value, int | float) else ""
        problems.append(f"{place} must be {noun}, not {describe(value)}{quotes}")
        return None
    if isinstance(value, float) and not math.isfinite(value):
        problems.append(f"{place} must be a finite number, not {describe(value)}")
        return None
    if argument.minimum is not None and isinstance(value, int | float) and value < argument.minimum:
        problems.append(f"{place} must be at least {argument.minimum:g}, not {describe(value)}")
        return None
    if argument.maximum is not None and isinstance(value, int | float) and value > argument.maximum:
        problems.append(f"{place} must be at most {argument.maximum:g}, not {describe(value)}")
        return None
    if argument.choices is not None and value not in argument.choices:
        known = ", ".join(str(c) for c in argument.choices)
        near = hint(value, [str(c) for c in argument.choices]) if isinstance(value, str) else ""
        suffix = near if "did you mean" in near else ""
        problems.append(f"{place} must be one of {known}, not {describe(value)}{suffix}")
        return None
    return value


def pair(name: str, value: Any) -> str:
    """Return `value` as the text ``NAME=VALUE``; null is the name alone.

    A text stays as it is, unless it reads as JSON; other values are written as JSON.

    >>> pair("max_turns", 3), pair("parser_name", "json"), pair("version", "3"), pair("DAYTONA_API_KEY", None)
    ('max_turns=3', 'parser_name=json', 'version="3"', 'DAYTONA_API_KEY')
    """
    if value is None:
        return name
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return f"{name}={value}"
    return f"{name}={json.dumps(value, default=_plain_json)}"


def _plain_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)


def without_effect(argument: Argument, values: Mapping[str, Any]) -> str | None:
    """Why `argument` has no effect beside `values` (all arguments by their own names); None if it has one."""
    for name, effective in argument.when.items():
        if values.get(name) not in effective:
            wanted = " or ".join(_plain(value) for value in effective)
            if effective and effective[0] not in effective:  # it lists what has none: `trainers.base.OtherThan`
                wanted = f"other than {wanted}"
            return f"it has no effect with {name} {_plain(values.get(name))}, only with {name} {wanted}"
    return None


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve(
    arguments: Sequence[Argument],
    given: Mapping[str, Any],
    where: Where,
    owner: str,
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Every argument with its value: what was given, checked, or the default.

    Args:
        owner: who takes the arguments, as a sentence names it (``trainer 'NoOp'``).
        remedies: see `canonical`.

    Raises:
        ConfigError: unknown keys, an alias beside its name, wrong types, values out of bounds; one line each.
    """
    problems: list[str] = []
    written = canonical(arguments, given, where, owner, problems, remedies)
    values = {
        a.name: checked(a, given[written[a.name]], where(written[a.name]), problems) if a.name in written else a.default
        for a in arguments
    }
    if problems:
        raise ConfigError("\n".join(problems))
    return values
