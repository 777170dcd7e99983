"""Second names of config keys, and the short ways to write things; all become one form before the checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, get_args

from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig, TaskConfig, TrainerConfig
from trace_bench.config.source import Path_, Place, Problem, Rows, Source, Table
from trace_bench.config.values import Section
from trace_bench.suites.registry import normalise_id
from trace_bench.trainers.names import PRESETS, canonical

ALIASES: Mapping[type[Section], Mapping[str, str]] = {
    RunConfig: {"runs_root": "runs_dir", "n_concurrent": "max_workers", "seed": "seeds"},
    TaskConfig: {"key": "id", "task": "id"},
    TrainerConfig: {
        "name": "id",
        "trainer": "id",
        "key": "id",
        "params": "params_variants",
        "trainer_kwargs": "params_variants",
    },
    LlmConfig: {"api_base": "base_url"},
}
"""``{second name: key}`` of each section. Everywhere, hyphens are taken for underscores."""

KNOBS = (
    "threads",
    "num_threads",
    "verbose",
    "ps_steps",
    "ps_batches",
    "ps_candidates",
    "ps_proposals",
    "ps_mem_update",
    "gepa_iters",
    "gepa_train_bs",
    "gepa_merge_every",
    "gepa_pareto_subset",
)
"""Trainer parameters that may be written at the top level (for all trainers) or on an entry (for its variants)."""

OBJECTIVES = {"score": "scalar", "scalar": "scalar", "weighted": "weighted", "pareto": "pareto"}
"""Words that stand for an objective: its mode, with defaults for the rest."""

BARE = {"tasks": "id", "trainers": "id", "llms": "model"}
"""Lists whose entries may be text: the key that the text stands for."""

SINGLE = {"seed", "params", "trainer_kwargs"}
"""Names that take one entry where the key that they stand for takes a list."""


def keys_of(section: type[Section]) -> list[str]:
    """Return every key that a user can write in `section`, second names included."""
    keys = [field.alias or name for name, field in section.model_fields.items() if name != "knobs"]
    return [*keys, *ALIASES.get(section, {}), *knobs_of(section)]


def knobs_of(section: type[Section]) -> tuple[str, ...]:
    """Return the trainer parameters that a user can write as keys of `section`."""
    return KNOBS if section in (RunConfig, TrainerConfig) else ()


@cache
def sections_of(section: type[Section]) -> Mapping[str, type[Section]]:
    """Return the sections inside `section` by key; the key of a list has the section of its entries."""
    inner = {}
    for name, field in section.model_fields.items():
        kinds = [kind for kind in _parts(field.annotation) if isinstance(kind, type) and issubclass(kind, Section)]
        if kinds:
            inner[name] = kinds[0]
    return inner


def _parts(annotation: Any) -> Iterator[Any]:
    """The types of which `annotation` is made."""
    parts = get_args(annotation)
    return chain.from_iterable(map(_parts, parts)) if parts else iter((annotation,))


def section_at(path: Path_) -> type[Section] | None:
    """Return the section whose keys stand at `path`; None where keys are free."""
    section: type[Section] | None = RunConfig
    for key in path:
        if isinstance(key, str):
            section = sections_of(section).get(key) if section is not None else None
    return section


def normalise(root: Table, file: str, problems: list[Problem]) -> Table:
    """Return `root` in the one form that the models take, with lines and written names.

    Second names become names, bare ids become mappings, single entries become lists, and knobs move below
    ``trainer_kwargs`` (from the top level) or ``knobs`` (from a trainer entry).
    """
    for name, key in BARE.items():
        entries: Any = root.get(name)
        for index, entry in enumerate(entries if isinstance(entries, Rows) else ()):
            if isinstance(entry, str):
                line = Source(file, root).problem((name, index), "").line
                entries[index] = Table(line=line)
                entries[index].put(key, entry, Place(line))
    _spell_out_objective(root)
    _spell_out_mirrors(root)
    top = _section(root, RunConfig, (), Source(file, root), problems)
    _gather_knobs(top, "trainer_kwargs", problems, prefix="/")
    for task in _tables(top, "tasks"):
        if isinstance(task.get("id"), str) and task["id"].strip():
            task["id"] = normalise_id(task["id"])
    for trainer in _tables(top, "trainers"):
        _complete_trainer(trainer, problems)
    return top


def _tables(top: Table, key: str) -> list[Table]:
    entries = top.get(key)
    return [entry for entry in entries if isinstance(entry, Table)] if isinstance(entries, Rows) else []


def _spell_out_objective(top: Table) -> None:
    """Replace a word such as ``objective: pareto`` by its mapping. An unknown word stays, and is refused later."""
    word = top.get("objective")
    if isinstance(word, str) and word in OBJECTIVES:
        place = top.place("objective")
        table = Table(line=place.line)
        table.put("mode", OBJECTIVES[word], replace(place, written=""))
        top["objective"] = table


def _spell_out_mirrors(top: Table) -> None:
    """Replace ``mirrors: mlflow``, ``mirrors: [mlflow]`` and an empty mirror by mappings. Other values stay, and are
    refused later."""
    given = top.get("mirrors")
    names = [given] if isinstance(given, str) else given
    place = top.place("mirrors")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        table = Table(line=place.line)
        for index, name in enumerate(names):
            line = names.line_of(index) if isinstance(names, Rows) else None
            table.put(name, None, Place(line or place.line, option=place.option))
        top["mirrors"] = table
    if isinstance(top.get("mirrors"), Table):
        for name, value in top["mirrors"].items():
            if value is None:
                top["mirrors"][name] = Table(line=top["mirrors"].place(name).line)


def _section(table: Table, section: type[Section], path: Path_, source: Source, problems: list[Problem]) -> Table:
    """Return `table` and the sections inside it, with each key under its own name."""
    renamed = _renamed(table, section, path, source, problems)
    for name, inner in sections_of(section).items():
        value: Any = renamed.get(name)
        if isinstance(value, Table):
            renamed[name] = _section(value, inner, (*path, name), source, problems)
        for index, entry in enumerate(value if isinstance(value, Rows) else ()):
            if isinstance(entry, Table):
                value[index] = _section(entry, inner, (*path, name, index), source, problems)
    return renamed


def _complete_trainer(trainer: Table, problems: list[Problem]) -> None:
    """Give a trainer entry the trainer's own name, and gather its knobs with those that its name stands for."""
    written = trainer["id"].strip() if isinstance(trainer.get("id"), str) else ""
    if written:
        trainer["id"] = canonical(written)
    _gather_knobs(trainer, "knobs", problems, prefix="")
    if written in PRESETS:
        knobs = trainer.setdefault("knobs", Table(line=trainer.line))
        for name, value in PRESETS[written].items():
            if name not in knobs:
                knobs.put(name, value, Place(trainer.place("id").line))


def _renamed(table: Table, section: type[Section], path: Path_, source: Source, problems: list[Problem]) -> Table:
    """Return `table` with each key under its own name; two names of one key are a problem."""
    known = set(keys_of(section))
    aliases = ALIASES.get(section, {})
    renamed = Table(line=table.line)
    for written, value in table.items():
        plain = written.replace("-", "_")
        name = aliases.get(plain, plain) if plain in known else written
        place = table.place(written)
        if (section, name) == (TrainerConfig, "knobs"):  # the home that `_gather_knobs` makes
            text = f"unknown key {source.shown((*path, name))!r}; write each knob on the entry itself"
            problems.append(Problem(place.line, text, place.option))
            continue
        if name in renamed:
            text = f"{source.shown((*path, written))} and {renamed.place(name).written!r} are two names of one key"
            problems.append(Problem(place.line, f"{text}; keep one of them", place.option))
            continue
        if plain in SINGLE and name != plain and not isinstance(value, Rows):
            rows = Rows([value], place.line, single=True)
            rows.lines = [value.line if isinstance(value, Table) else place.line]
            value = rows
        renamed.put(name, value, place if place.written is not None else replace(place, written=written))
    return renamed


def _gather_knobs(table: Table, home: str, problems: list[Problem], *, prefix: str) -> None:
    """Move the knobs of `table` into the mapping `home`, from where they are resolved like any parameter."""
    knobs = [key for key in KNOBS if key in table]
    gathered = table.get(home, Table(line=table.line))
    if not knobs or not isinstance(gathered, Table):
        return
    if home not in table:
        table.put(home, gathered, Place(gathered.line, written=""))
    for key in knobs:
        place = table.place(key)
        if key in gathered:
            text = f"{key!r} is given here and under {home!r}; keep one of them"
            problems.append(Problem(place.line, text, place.option))
        gathered.put(key, table.pop(key), replace(place, written=f"{prefix}{place.written or key}"))
