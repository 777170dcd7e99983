"""Second names of config keys, and the short ways to write things; all become one form before the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trace_bench.config.llms import LlmConfig, LlmLimitsConfig, PricesConfig
from trace_bench.config.models import (
    BudgetConfig,
    ImagesConfig,
    MirrorsConfig,
    MlflowMirrorConfig,
    ObjectiveConfig,
    RunBudgetConfig,
    RunConfig,
    SandboxConfig,
    SplitsConfig,
    TaskConfig,
    TrainerConfig,
)
from trace_bench.config.places import (
    DockerConfig,
    DockerHostConfig,
    ModalConfig,
    ModalPricesConfig,
    SchedulingConfig,
)
from trace_bench.config.source import Path_, Problem, Rows, Source, Table
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

SECTIONS: Mapping[str, type[Section]] = {
    "images": ImagesConfig,
    "sandbox": SandboxConfig,
    "llm": LlmConfig,
    "budget": BudgetConfig,
    "splits": SplitsConfig,
    "objective": ObjectiveConfig,
    "mirrors": MirrorsConfig,
    "docker": DockerConfig,
    "modal": ModalConfig,
    "scheduling": SchedulingConfig,
}

OBJECTIVES = {"score": "scalar", "scalar": "scalar", "weighted": "weighted", "pareto": "pareto"}
"""Words that stand for an objective: its mode, with all else as it comes."""

ENTRIES: Mapping[str, type[Section]] = {"tasks": TaskConfig, "trainers": TrainerConfig, "llms": LlmConfig}
"""Lists of sections."""

NESTED: Mapping[type[Section], Mapping[str, type[Section]]] = {
    LlmConfig: {"prices": PricesConfig, "limits": LlmLimitsConfig},
    BudgetConfig: {"run": RunBudgetConfig},
    TaskConfig: {"sandbox": SandboxConfig},
    MirrorsConfig: {"mlflow": MlflowMirrorConfig},
    ModalConfig: {"prices": ModalPricesConfig},
}
"""Sections inside sections."""

INNER_ENTRIES: Mapping[type[Section], Mapping[str, type[Section]]] = {DockerConfig: {"hosts": DockerHostConfig}}
"""Lists of sections inside sections."""

SINGLE = {"seed", "params", "trainer_kwargs"}
"""Names that take one entry where the key that they stand for takes a list."""


def keys_of(section: type[Section]) -> list[str]:
    """Every key that a user may write in `section`, second names included."""
    keys = [field.alias or name for name, field in section.model_fields.items() if name != "knobs"]
    return [*keys, *ALIASES.get(section, {}), *knobs_of(section)]


def knobs_of(section: type[Section]) -> tuple[str, ...]:
    """The trainer parameters that a user may write as keys of `section`."""
    return KNOBS if section in (RunConfig, TrainerConfig) else ()


def section_at(path: Path_) -> type[Section] | None:
    """The section whose keys stand at `path`; None where keys are free."""
    match path:
        case ():
            return RunConfig
        case (str(name),) if name in SECTIONS:
            return SECTIONS[name]
        case (str(name), int()) if name in ENTRIES:
            return ENTRIES[name]
        case (*above, str(name), int()) if above:
            around = section_at(tuple(above))
            return INNER_ENTRIES.get(around, {}).get(name) if around is not None else None
        case (*above, str(name)) if above:
            around = section_at(tuple(above))
            return NESTED.get(around, {}).get(name) if around is not None else None
    return None


def normalise(root: Table, file: str, problems: list[Problem]) -> Table:
    """`root` in the one form that the models take, lines and written names kept.

    Second names become names, bare ids become mappings, single entries become lists, and knobs move below
    ``trainer_kwargs`` (from the top level) or ``knobs`` (from a trainer entry).
    """
    top = _renamed(root, RunConfig, (), Source(file, root), problems)
    source = Source(file, top)
    _spell_out_mirrors(top)
    for name, section in SECTIONS.items():
        if isinstance(top.get(name), Table):
            top[name] = _section(top[name], section, (name,), source, problems)
    _spell_out_objective(top)
    _gather_knobs(top, "trainer_kwargs", problems, prefix="/")
    _each(top, "tasks", lambda i, entry: _task(entry, i, source, problems))
    _each(top, "trainers", lambda i, entry: _trainer(entry, i, source, problems))
    _each(top, "llms", lambda i, entry: _llm(entry, i, source, problems))
    return top


def _spell_out_objective(top: Table) -> None:
    """``objective: pareto`` as the mapping that it stands for; what is no such word stays, to be refused."""
    word = top.get("objective")
    if isinstance(word, str) and word in OBJECTIVES:
        table = Table({"mode": OBJECTIVES[word]}, top.lines.get("objective"))
        table.lines["mode"] = top.lines.get("objective")
        table.names["mode"] = ""
        if "objective" in top.origins:
            table.origins["mode"] = top.origins["objective"]
        top["objective"] = table


def _spell_out_mirrors(top: Table) -> None:
    """``mirrors: mlflow``, ``mirrors: [mlflow]`` and a mirror without anything below it as mappings of mappings; what
    is none of these stays, to be refused."""
    given = top.get("mirrors")
    names = [given] if isinstance(given, str) else given
    line = top.lines.get("mirrors")
    if isinstance(names, Rows | list) and all(isinstance(name, str) for name in names):
        table = Table(line=line)
        for index, name in enumerate(names):
            table[name] = None
            table.lines[name] = (
                names.lines[index] if isinstance(names, Rows) and index < len(names.lines) else None
            ) or line
        if "mirrors" in top.origins:
            table.origins = dict.fromkeys(table, top.origins["mirrors"])
        top["mirrors"] = table
    if isinstance(top.get("mirrors"), Table):
        for name, value in top["mirrors"].items():
            if value is None:
                top["mirrors"][name] = Table(line=top["mirrors"].lines.get(name))


def _section(table: Table, section: type[Section], path: Path_, source: Source, problems: list[Problem]) -> Table:
    """`table` and the sections inside it, with each key under its own name."""
    renamed = _renamed(table, section, path, source, problems)
    for name, inner in NESTED.get(section, {}).items():
        if isinstance(renamed.get(name), Table):
            renamed[name] = _section(renamed[name], inner, (*path, name), source, problems)
    for name, inner in INNER_ENTRIES.get(section, {}).items():
        _each(renamed, name, lambda i, entry, n=name, kind=inner: _inner(entry, kind, (*path, n, i), source, problems))  # type: ignore[misc]
    return renamed


def _inner(entry: Any, section: type[Section], path: Path_, source: Source, problems: list[Problem]) -> Any:
    return _section(entry, section, path, source, problems) if isinstance(entry, Table) else entry


def _each(table: Table, key: str, change: Callable[[int, Any], Any]) -> None:
    entries = table.get(key)
    if isinstance(entries, Rows):
        for index, entry in enumerate(entries):
            entries[index] = change(index, entry)


def _task(entry: Any, index: int, source: Source, problems: list[Problem]) -> Any:
    path: Path_ = ("tasks", index)
    if isinstance(entry, str):
        entry = _bare(entry, source, path)
    if not isinstance(entry, Table):
        return entry
    task = _section(entry, TaskConfig, path, source, problems)
    if isinstance(task.get("id"), str) and task["id"].strip():
        task["id"] = normalise_id(task["id"])
    return task


def _llm(entry: Any, index: int, source: Source, problems: list[Problem]) -> Any:
    path: Path_ = ("llms", index)
    if isinstance(entry, str):
        line = source.problem(path, "").line
        entry = Table({"model": entry}, line)
        entry.lines["model"] = line
    return _section(entry, LlmConfig, path, source, problems) if isinstance(entry, Table) else entry


def _trainer(entry: Any, index: int, source: Source, problems: list[Problem]) -> Any:
    path: Path_ = ("trainers", index)
    if isinstance(entry, str):
        entry = _bare(entry, source, path)
    if not isinstance(entry, Table):
        return entry
    trainer = _renamed(entry, TrainerConfig, path, source, problems)
    if "knobs" in trainer:  # the home that `_gather_knobs` makes, and no key that a user may write
        shown = source.shown((*path, "knobs"))
        problems.append(Problem(trainer.lines["knobs"], f"unknown key {shown!r}; write each knob on the entry itself"))
        del trainer["knobs"]
    written = trainer["id"].strip() if isinstance(trainer.get("id"), str) else ""
    if written:
        trainer["id"] = canonical(written)
    _gather_knobs(trainer, "knobs", problems, prefix="")
    if written in PRESETS:
        knobs = trainer.setdefault("knobs", Table(line=trainer.line))
        for name, value in PRESETS[written].items():
            knobs.setdefault(name, value)
            knobs.lines.setdefault(name, trainer.lines.get("id"))
    return trainer


def _bare(task_or_trainer: str, source: Source, path: Path_) -> Table:
    line = source.problem(path, "").line
    table = Table({"id": task_or_trainer}, line)
    table.lines["id"] = line
    return table


def _renamed(table: Table, section: type[Section], path: Path_, source: Source, problems: list[Problem]) -> Table:
    """`table` with each key under its own name; two names of one key are a problem."""
    known = set(keys_of(section))
    aliases = ALIASES.get(section, {})
    renamed = Table(line=table.line)
    for written, value in table.items():
        plain = written.replace("-", "_")
        name = aliases.get(plain, plain) if plain in known else written
        if name in renamed:
            other = renamed.names.get(name, name)
            text = f"{source.shown((*path, written))} and {other!r} are two names of one key; keep one of them"
            problems.append(Problem(table.lines.get(written), text, table.origins.get(written, "")))
            continue
        if plain in SINGLE and name != plain and not isinstance(value, Rows):
            rows = Rows([value], table.lines.get(written), single=True)
            rows.lines = [value.line if isinstance(value, Table) else table.lines.get(written)]
            value = rows
        renamed[name] = value
        renamed.lines[name] = table.lines.get(written)
        if written != name or written in table.names:
            renamed.names[name] = table.names.get(written, written)
        if written in table.origins:
            renamed.origins[name] = table.origins[written]
    return renamed


def _gather_knobs(table: Table, home: str, problems: list[Problem], *, prefix: str) -> None:
    """Move the knobs of `table` into the mapping `home`, from where they are resolved like any parameter."""
    knobs = [key for key in KNOBS if key in table]
    if not knobs or not isinstance(table.get(home, Table()), Table):
        return
    given = table.get(home, Table())
    gathered = Table(given, given.line if home in table else table.line)
    gathered.lines, gathered.names, gathered.origins = dict(given.lines), dict(given.names), dict(given.origins)
    for key in knobs:
        if key in gathered:
            text = f"{key!r} is given here and under {home!r}; keep one of them"
            problems.append(Problem(table.lines.get(key), text, table.origins.get(key, "")))
        gathered[key] = table.pop(key)
        gathered.lines[key] = table.lines.get(key)
        gathered.names[key] = prefix + table.names.get(key, key)
        if key in table.origins:
            gathered.origins[key] = table.origins[key]
    if home not in table:
        table.names[home] = ""
    table[home] = gathered
    table.lines.setdefault(home, gathered.line)
