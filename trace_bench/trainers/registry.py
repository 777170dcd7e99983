"""Finds trainers through the entry point group ``trace_bench.trainers``; the built-in ones are registered the
same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from trace_bench.arguments import Argument, Where, hint, resolve
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import plug_ins
from trace_bench.trainers.base import Param, Trainer

GROUP = "trace_bench.trainers"
OURS = "trace-bench"
_ATTRIBUTES = ("name", "summary", "source", "params", "uses_llm", "uses_graph", "search")


def _entry_points() -> dict[str, EntryPoint]:
    found = {point.name: point for point in plug_ins(GROUP)}
    if not found:
        raise EnvironmentUnavailable(
            f"no installed package declares an entry point of the group {GROUP!r}; install trace-bench with "
            "'pip install -e .' (or 'pip install .') in the Python that runs it"
        )
    return found


def _load(point: EntryPoint) -> type[Trainer]:
    """The class behind an entry point.

    Raises:
        ConfigError: it cannot be imported or is no trainer; the sentence says why.
    """
    try:
        loaded = point.load()
    except Exception as error:
        raise ConfigError(
            f"trainer {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    missing = [name for name in _ATTRIBUTES if not hasattr(loaded, name)]
    if not isinstance(loaded, type) or missing:
        lacks = f"lacks {', '.join(missing)}" if missing else "is not a class"
        raise ConfigError(f"trainer {point.name!r} ({point.value}) is no trainer: it {lacks}")
    return loaded


def list_trainers() -> list[tuple[str, bool, str]]:
    """``(id, available, reason)`` of every registered trainer, sorted by id; the reason is empty if available."""
    rows: list[tuple[str, bool, str]] = []
    for name, point in _entry_points().items():
        try:
            _load(point)
        except ConfigError as error:
            rows.append((name, False, str(error)))
        else:
            rows.append((name, True, ""))
    return rows


def load_trainers() -> dict[str, type[Trainer]]:
    """Every trainer that can be loaded, by id; `list_trainers` gives the reasons of the others."""
    trainers: dict[str, type[Trainer]] = {}
    for name, point in _entry_points().items():
        try:
            trainers[name] = _load(point)
        except ConfigError:
            continue
    return trainers


def load_trainer(name: str) -> type[Trainer]:
    """The trainer `name`.

    Raises:
        ConfigError: there is none of that name (the nearest is named), or it cannot be loaded.
    """
    points = _entry_points()
    if name not in points:
        raise ConfigError(f"there is no trainer {name!r}{hint(name, points)}")
    return _load(points[name])


def entry_of(name: str) -> str:
    """``module:Class`` of the trainer `name`, as ``job.json`` hands it to the worker.

    Raises:
        ConfigError: there is none of that name.
    """
    points = _entry_points()
    if name not in points:
        raise ConfigError(f"there is no trainer {name!r}{hint(name, points)}")
    return points[name].value


def distribution_of(point: EntryPoint) -> str:
    """The installed distribution that declares `point`, by its normalised name (PEP 503); empty if none does."""
    return re.sub(r"[-_.]+", "-", point.dist.name).lower() if point.dist is not None else ""


def entry_points_of(distribution: str) -> list[EntryPoint]:
    """The trainers of the installed distribution of that normalised name."""
    return [point for point in _entry_points().values() if distribution_of(point) == distribution]


def additions_of(name: str, trainer: type[Trainer]) -> tuple[str, ...]:
    """What jobs of the trainer `name` need besides what their task's image family holds: its `layer` and, where it is
    not of this package, the distribution that it is of. For example ``("gepa",)``.
    """
    point = plug_in_named(name)
    layer, distribution = getattr(trainer, "layer", ""), distribution_of(point) if point else ""
    return tuple(addition for addition in (layer, distribution) if addition and addition != OURS)


def packages_of(trainers: Iterable[str]) -> dict[str, str]:
    """Name and version of each distribution but this one that `trainers` are of."""
    points = (plug_in_named(name) for name in trainers)
    found = {distribution_of(point): point.dist.version for point in points if point is not None and point.dist}
    return {name: found[name] for name in sorted(found) if name != OURS}


def plug_in_named(name: str) -> EntryPoint | None:
    """The entry point of the trainer `name`, if there is one."""
    return next((point for point in plug_ins(GROUP) if point.name == name), None)


def arguments_of(params: tuple[Param, ...]) -> tuple[Argument, ...]:
    """The same parameters as the config's checks take them."""
    return tuple(
        Argument(
            p.name,
            p.type,
            p.default,
            minimum=p.minimum,
            maximum=p.maximum,
            choices=p.choices,
            aliases=p.aliases,
            when=p.when,
        )
        for p in params
    )


def resolve_params(trainer: type[Trainer], given: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Every parameter of `trainer` by its own name: aliases resolved, types checked, defaults filled in.

    Raises:
        ConfigError: one line for each parameter that is unknown, named twice, of the wrong type or out of bounds.
    """
    return resolve(arguments_of(trainer.params), given, where, f"trainer {trainer.name!r}")
