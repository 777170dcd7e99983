"""Resolve each trainer entry: the layers of the config are applied over each other. Pure.

Parameters: ``trainer_kwargs`` and knobs of the top level < knobs of the entry < the variant. Optimizer
arguments: ``optimizer_kwargs`` of the top level < of the entry < of the variant. What stands at the top level
applies to the trainers that take it, and is an error only if none does; everything else is strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.arguments import Argument, Where, canonical, checked, describe, find, hint, without_effect
from trace_bench.config.frozen import FrozenDict, freeze
from trace_bench.config.models import TENSORBOARD, RunConfig, TrainerConfig
from trace_bench.config.source import Path_
from trace_bench.trainers.base import Trainer
from trace_bench.trainers.guides import DEFAULT_GUIDE, GUIDES
from trace_bench.trainers.names import REMEDIES
from trace_bench.trainers.optimizers import DEFAULT_OPTIMIZER, OPTIMIZERS, UNAVAILABLE
from trace_bench.trainers.registry import arguments_of

NO_OPTIMIZER = "none"
"""The optimizer of a trainer that uses none."""
_LABEL_LENGTH = 80


@dataclass(frozen=True)
class Variant:
    """One entry of a trainer's ``params_variants``, resolved.

    Attributes:
        trainer: index of the entry in ``trainers``.
        index: in ``params_variants``.
        given: what the entry of ``params_variants`` says itself, under the parameters' own names.
        label: what tells it from the entry's other variants (``num_steps=3``), for people; ``default`` if nothing.
    """

    trainer: int
    trainer_id: str
    index: int
    label: str
    params: FrozenDict
    optimizer: str
    optimizer_kwargs: FrozenDict
    given: FrozenDict
    guide_kwargs: FrozenDict

    @property
    def path(self) -> Path_:
        return ("trainers", self.trainer, "params_variants", self.index)


def resolve_variants(config: RunConfig, trainers: Mapping[str, type[Trainer]], problems: list[str]) -> list[Variant]:
    """Every variant of every trainer entry, in order; what is wrong is added to `problems`, one sentence each."""
    variants: list[Variant] = []
    taken: dict[str, set[str]] = {"trainer_kwargs": set(), "optimizer_kwargs": set()}
    classes: list[type[Trainer]] = []
    for index, entry in enumerate(config.trainers):
        if entry.id not in trainers:
            where = config.source.where(("trainers", index, "id"))
            problems.append(f"{where}: unknown trainer {entry.id!r}{hint(entry.id, trainers)}")
            continue
        classes.append(trainers[entry.id])
        _logger_takes_nothing(config, index, problems)
        variants += _Entry(config, index, trainers[entry.id], problems, taken).variants()
    if len(classes) == len(config.trainers):
        _nothing_is_left_over(config, classes, taken, problems)
    return variants


class _Entry:
    """Resolves the variants of one trainer entry."""

    def __init__(
        self,
        config: RunConfig,
        index: int,
        trainer: type[Trainer],
        problems: list[str],
        taken: dict[str, set[str]],
    ) -> None:
        self._config = config
        self._entry: TrainerConfig = config.trainers[index]
        self._path: Path_ = ("trainers", index)
        self._index = index
        self._trainer = trainer
        self._arguments = arguments_of(trainer.params)
        self._owner = f"trainer {trainer.name!r}"
        self._problems = problems
        self._taken = taken

    def variants(self) -> list[Variant]:
        shared = self._from_top("trainer_kwargs", self._arguments, self._owner)
        on_entry = self._layer(self._entry.knobs, (*self._path, "knobs"), self._arguments, self._owner)
        optimizer, optimizer_arguments = self._optimizer()
        guide_kwargs = self._guide()
        optimizer_owner = f"optimizer {optimizer!r}" if optimizer != NO_OPTIMIZER else self._owner
        shared_optimizer = self._from_top("optimizer_kwargs", optimizer_arguments, optimizer_owner)
        entry_optimizer = self._layer(
            self._entry.optimizer_kwargs, (*self._path, "optimizer_kwargs"), optimizer_arguments, optimizer_owner
        )
        result: list[Variant] = []
        idle, idle_optimizer = _Idle(), _Idle()
        for number, variant in enumerate(self._entry.params_variants):
            path: Path_ = (*self._path, "params_variants", number)
            own = {key: value for key, value in variant.items() if key.replace("-", "_") != "optimizer_kwargs"}
            given = self._layer(own, path, self._arguments, self._owner)
            optimizer_given = self._layer(
                self._optimizer_part(variant, path), (*path, "optimizer_kwargs"), optimizer_arguments, optimizer_owner
            )
            self._not_in_the_way_of_options(own, path)
            written = given | {f"optimizer.{key}": value for key, value in optimizer_given.items()}
            params = self._bounded(shared | on_entry | given, path)
            optimizer_kwargs = _filled(optimizer_arguments, shared_optimizer | entry_optimizer | optimizer_given)
            idle.look(self._arguments, params, on_entry, given)
            self._refuse(idle.given, path, self._owner, params, self._arguments)
            idle_optimizer.look(optimizer_arguments, optimizer_kwargs, entry_optimizer, optimizer_given)
            self._refuse(
                idle_optimizer.given,
                (*path, "optimizer_kwargs"),
                optimizer_owner,
                optimizer_kwargs,
                optimizer_arguments,
            )
            result.append(
                Variant(
                    trainer=self._index,
                    trainer_id=self._entry.id,
                    index=number,
                    label=_label(written),
                    params=params,
                    optimizer=optimizer,
                    optimizer_kwargs=optimizer_kwargs,
                    given=freeze(written),
                    guide_kwargs=guide_kwargs,
                )
            )
        self._refuse(idle.on_entry, self._path, self._owner, {}, self._arguments)
        self._refuse(
            idle_optimizer.on_entry, (*self._path, "optimizer_kwargs"), optimizer_owner, {}, optimizer_arguments
        )
        return result

    def _bounded(self, given: Mapping[str, Any], path: Path_) -> FrozenDict:
        """All parameters. With a budget of the job, and no parameter that says how long the search goes on, it goes on
        until the budget ends; what is to go on so without any budget is refused."""
        given = {**self._recorded(), **given}
        filled = _filled(self._arguments, given)
        bounds = [a for a in self._arguments if a.endless is not None and without_effect(a, filled) is None]
        budget = self._config.budget
        of_job, of_run = (
            any(value is not None for value in part.model_dump(exclude={"run"}).values())
            for part in (budget, budget.run)
        )
        if of_job and not any(a.name in given for a in bounds):
            return _filled(self._arguments, {**given, **{a.name: a.endless for a in bounds}})
        endless = bounds and all(filled[a.name] == a.endless for a in bounds)
        if endless and not of_job and not of_run:
            said = next((a for a in bounds if a.name in given), bounds[0])
            self._problems.append(
                f"{self._place(said, path)}: {said.name} is {said.endless}, so the search goes on until a budget ends, "
                f"and there is none; set budget.evaluations (or calls, tokens, usd, seconds), or another {said.name}"
            )
        return filled

    def _recorded(self) -> dict[str, Any]:
        """Defaults of the run that is repeated, as far as the trainer has them or had them in an earlier version."""
        recorded = self._config.recorded_defaults.get(self._entry.id, {})
        return {
            a.name: recorded[a.name]
            for a in self._arguments
            if a.name in recorded
            and (a.endless is None or recorded[a.name] != a.endless)  # that follows from the budget
            and any(type(recorded[a.name]) is type(d) and recorded[a.name] == d for d in (a.default, *a.formerly))
        }

    def _place(self, argument: Argument, path: Path_) -> str:
        """Where `argument` was given: in the variant at `path`, in its entry, or for all trainers."""
        variant = self._entry.params_variants[path[-1]] if isinstance(path[-1], int) else {}
        layers: tuple[tuple[Mapping[str, Any], Path_], ...] = (
            (variant, path),
            (self._entry.knobs, (*self._path, "knobs")),
            (self._config.trainer_kwargs, ("trainer_kwargs",)),
        )
        for given, above in layers:
            for key in given:
                if find(self._arguments, key) is argument:
                    return self._where(above)(key)
        return self._where(path)("")

    def _not_in_the_way_of_options(self, own: Mapping[str, Any], path: Path_) -> None:
        """Refuse an option whose parameter the entry, or its variant `own`, sets under another name."""
        source = self._config.source
        for key in self._config.trainer_kwargs:
            option, argument = source.origin(("trainer_kwargs", key)), find(self._arguments, key)
            if not option or argument is None:
                continue
            for given, above in ((self._entry.knobs, (*self._path, "knobs")), (own, path)):
                for other in (name for name in given if find(self._arguments, name) is argument):
                    self._problems.append(
                        f"{option}: {key} is what {source.where((*above, other))} sets; write {other} in the option"
                    )

    def _refuse(
        self,
        idle: Mapping[str, str],
        path: Path_,
        owner: str,
        values: Mapping[str, Any],
        arguments: Sequence[Argument],
    ) -> None:
        """Add a problem for each of `idle`, which have no effect: why, and which setting gives them one."""
        for name, why in idle.items():
            other = [a.name for a in arguments if a.name not in idle and without_effect(a, values) is None]
            known = f"; {owner} takes here {', '.join(other)}" if values and other else ""
            self._problems.append(f"{self._where(path)(name)}: {why}; delete it{known}")

    def _from_top(self, key: str, arguments: Sequence[Argument], owner: str) -> dict[str, Any]:
        """The part of the top level's mapping `key` that is for this trainer."""
        given = {name: value for name, value in getattr(self._config, key).items() if find(arguments, name) is not None}
        self._taken[key].update(given)
        return self._layer(given, (key,), arguments, owner)

    def _layer(
        self, given: Mapping[str, Any], path: Path_, arguments: Sequence[Argument], owner: str
    ) -> dict[str, Any]:
        """`given` under the arguments' own names, checked."""
        where = self._where(path)
        remedies = REMEDIES if arguments is self._arguments else {}
        written = canonical(arguments, given, where, owner, self._problems, remedies)
        by_name = {argument.name: argument for argument in arguments}
        return {name: checked(by_name[name], given[key], where(key), self._problems) for name, key in written.items()}

    def _where(self, path: Path_) -> Where:
        return lambda key: self._config.source.where((*path, key) if key else path)

    def _optimizer_part(self, variant: Mapping[str, Any], path: Path_) -> Mapping[str, Any]:
        for key, value in variant.items():
            if key.replace("-", "_") == "optimizer_kwargs":
                if isinstance(value, Mapping):
                    return value
                place = self._config.source.where((*path, key))
                self._problems.append(f"{place} must be a mapping of keys to values, not {describe(value)}")
        return {}

    def _guide(self) -> FrozenDict:
        """The arguments of the entry's guide."""
        name = self._entry.guide
        arguments = arguments_of(GUIDES[name])
        if name != DEFAULT_GUIDE and not self._trainer.uses_graph:
            place = self._config.source.where((*self._path, "guide"))
            self._problems.append(
                f"{place}: {self._owner} asks no optimizer, which a guide could tell anything; delete it"
            )
        path: Path_ = (*self._path, "guide_kwargs")
        return _filled(arguments, self._layer(self._entry.guide_kwargs, path, arguments, f"guide {name!r}"))

    def _optimizer(self) -> tuple[str, tuple[Argument, ...]]:
        named = self._entry.optimizer
        place = self._config.source.where((*self._path, "optimizer"))
        if not self._trainer.uses_graph:
            if named not in (None, NO_OPTIMIZER):
                self._problems.append(f"{place}: {self._owner} uses no optimizer; delete this key")
            return NO_OPTIMIZER, ()
        name = named or DEFAULT_OPTIMIZER
        if name not in OPTIMIZERS:
            known = ", ".join(OPTIMIZERS)
            why = f" {UNAVAILABLE[name]}" if name in UNAVAILABLE else " is not known"
            near = hint(name, OPTIMIZERS) if name not in UNAVAILABLE else f"; known are {known}"
            self._problems.append(f"{place}: the optimizer {name!r}{why}{near}")
            name = DEFAULT_OPTIMIZER
        return name, arguments_of(OPTIMIZERS[name])


class _Idle:
    """Arguments that are given where they have no effect.

    Attributes:
        given: of the variant last looked at: why, by name.
        on_entry: of the entry, as far as they have none in any variant.
    """

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.on_entry: dict[str, str] = {}
        self._effective: set[str] = set()

    def look(
        self,
        arguments: Sequence[Argument],
        values: Mapping[str, Any],
        on_entry: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> None:
        """Look at a variant: `values` is what it comes to, `on_entry` and `given` what was written."""
        self.given = {}
        for argument in arguments:
            why = without_effect(argument, values)
            if why is None:
                self._effective.add(argument.name)
                self.on_entry.pop(argument.name, None)
            elif argument.name in given:
                self.given[argument.name] = why
            elif argument.name in on_entry and argument.name not in self._effective:
                self.on_entry[argument.name] = why


def _filled(arguments: Sequence[Argument], given: Mapping[str, Any]) -> FrozenDict:
    values = {a.name: given.get(a.name, a.default) for a in arguments}
    implied = {
        a.name
        for a in arguments
        if a.later and values[a.name] == a.default and (not a.when or without_effect(a, values) is not None)
    }
    filled: FrozenDict = freeze({name: value for name, value in values.items() if name not in implied})
    return filled


def _label(given: Mapping[str, Any]) -> str:
    text = ",".join(f"{name}={value}" for name, value in given.items()) or "default"
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "…"


def _logger_takes_nothing(config: RunConfig, index: int, problems: list[str]) -> None:
    if config.trainers[index].logger_kwargs:
        where = config.source.where(("trainers", index, "logger_kwargs"))
        why = ": its events are in tb/ of each job" if config.trainers[index].logger == TENSORBOARD else ""
        problems.append(f"{where}: the logger takes no arguments{why}; delete this key")


def _nothing_is_left_over(
    config: RunConfig, classes: Sequence[type[Trainer]], taken: Mapping[str, set[str]], problems: list[str]
) -> None:
    """Add a problem for each top-level argument that no trainer takes."""
    known = {
        "trainer_kwargs": [n for c in classes for p in c.params for n in (p.name, *p.aliases)],
        "optimizer_kwargs": [p.name for c in classes if c.uses_graph for ps in OPTIMIZERS.values() for p in ps],
    }
    for path, noun in (("trainer_kwargs", "trainer"), ("optimizer_kwargs", "optimizer")):
        for key in getattr(config, path):
            if key not in taken[path]:
                where = config.source.where((path, key))
                remedy = REMEDIES.get(key.replace("-", "_")) if noun == "trainer" else None
                said = f"; {remedy}" if remedy else hint(key, known[path])
                problems.append(f"{where}: no {noun} of this config takes {key!r}{said}")
