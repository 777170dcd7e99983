"""Finds trainers through the entry point group ``trace_bench.trainers``; the built-in ones are registered the
same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from trace_bench.arguments import Argument, Where, hint, resolve
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import plug_ins
from trace_bench.trainers import opto_scan
from trace_bench.trainers.base import Param, Trainer
from trace_bench.trainers.names import ALIASES, UNAVAILABLE, canonical

GROUP = "trace_bench.trainers"
OURS = "trace-bench"
BRIDGE = "trace_bench.trainers.opto_bridge"
_ATTRIBUTES = ("name", "summary", "source", "params", "uses_llm", "uses_graph", "search")


def _entry_points() -> dict[str, EntryPoint]:
    found = {point.name: point for point in (*plug_ins(GROUP), *_of_opentrace())}
    if not found:
        raise EnvironmentUnavailable(
            f"no installed package declares an entry point of the group {GROUP!r}; install trace-bench with "
            "'pip install -e .' (or 'pip install .') in the Python that runs it"
        )
    return found


def _of_opentrace() -> list[EntryPoint]:
    """The trainers of the copy of OpenTrace that the user named, if one was: ``opto:<Name>``."""
    if (place := opto_scan.location()) is None:
        return []
    return [
        EntryPoint(opto_scan.PREFIX + name, f"{BRIDGE}:{name}", GROUP)
        for name in opto_scan.trainers_of(opto_scan.files_of(place))
    ]


def _unknown(name: str, known: Mapping[str, EntryPoint]) -> ConfigError:
    if name.startswith(opto_scan.PREFIX) and not any(n.startswith(opto_scan.PREFIX) for n in known):
        place = opto_scan.location()
        why = f"{place} has no trainers" if place else f"{opto_scan.VARIABLE} is not set"
        return ConfigError(
            f"unknown trainer {name!r}: {why}; set {opto_scan.VARIABLE} to a checkout of OpenTrace that has them"
        )
    if name in UNAVAILABLE:
        return ConfigError(f"the trainer {name!r} is not available: it {UNAVAILABLE[name]}")
    return ConfigError(f"unknown trainer {name!r}{hint(name, known, ALIASES)}")


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
        lacks = f"has no {', '.join(missing)}" if missing else "is not a class"
        raise ConfigError(f"trainer {point.name!r} ({point.value}) is not a trainer: it {lacks}")
    return loaded


def list_trainers() -> list[tuple[str, bool, str]]:
    """``(id, available, reason)`` of every registered trainer, and of the names in `names.UNAVAILABLE`, sorted by id.

    The reason is empty if it is available.
    """
    rows: list[tuple[str, bool, str]] = []
    for name, point in _entry_points().items():
        try:
            _load(point)
        except ConfigError as error:
            rows.append((name, False, str(error)))
        else:
            rows.append((name, True, ""))
    rows += [(name, False, reason) for name, reason in UNAVAILABLE.items() if name not in _entry_points()]
    return sorted(rows)


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
    """The trainer `name`, which may be one of its other names.

    Raises:
        ConfigError: there is none of that name (the nearest is named), or it cannot be loaded.
    """
    return _load(_point(name))


def _point(name: str) -> EntryPoint:
    points = _entry_points()
    own = name if name in points else canonical(name)
    if own not in points:
        raise _unknown(name, points)
    return points[own]


def entry_of(name: str) -> str:
    """``module:Class`` of the trainer `name`, as ``job.json`` hands it to the worker.

    Raises:
        ConfigError: there is none of that name.
    """
    return _point(name).value


def executes_candidates(name: str) -> bool:
    """Whether the trainer `name` may run a candidate's source in its own process: jobs of it are unprotected."""
    return bool(getattr(load_trainer(name), "executes_candidates", False))


def remembered_by_itself(name: str, params: Mapping[str, Any]) -> bool:
    """Whether a job knew its evaluations before all jobs did: adapters remembered them, but for DSPy's SIMBA."""
    return bool(getattr(load_trainer(name), "layer", "")) and params.get("dspy_optimizer") != "simba"


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
            endless=p.endless,
            later=p.later,
            formerly=p.formerly,
        )
        for p in params
    )


def resolve_params(trainer: type[Trainer], given: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Every parameter of `trainer` by its own name: aliases resolved, types checked, defaults filled in.

    Raises:
        ConfigError: one line for each parameter that is unknown, named twice, of the wrong type or out of bounds.
    """
    return resolve(arguments_of(trainer.params), given, where, f"trainer {trainer.name!r}")
