"""Lays the options of a command line over the tables of a config.

Most options replace one key of the top level. Some mean what a file would say in other words:

* ``task``, ``trainer``: ids. They replace the entries of the config. An entry that the file has for an id stays as
  it is.
* ``model``: names of models. ``stub`` and ``scripted:FILE`` mean mode stub, any other one means mode real.
* ``param``: ``KEY=VALUE`` is a key of ``trainer_kwargs``, ``TRAINER.KEY=VALUE`` one of each variant of that trainer.
* ``budget``: ``evaluations=200,calls=60``, what a job may spend; ``none`` is no limit. It replaces what the file says
  of that, and leaves ``budget.run`` as it is.
* ``logger``: the logger of every trainer. ``mirror``: names of mirrors, beside those of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trace_bench.arguments import hint
from trace_bench.config.llms import is_builtin
from trace_bench.config.models import BudgetConfig, RunConfig, logger_name
from trace_bench.config.names import normalise
from trace_bench.config.reader import read_mapping, value_of
from trace_bench.config.secrets import find_secrets
from trace_bench.config.source import Place, Problem, Rows, Source, Table
from trace_bench.errors import ConfigError
from trace_bench.suites.registry import short_names
from trace_bench.trainers.names import canonical

_FLAGS = {
    "replay_from": "--replay",
    "replay_services": "--replay-services",
    "tasks": "-t",
    "trainers": "-T",
    "model": "-m",
    "param": "-p",
    "eval_kwargs": "--set",
}
"""Options whose names are not those of their keys."""
BUDGETS = tuple(name for name in BudgetConfig.model_fields if name != "run")
"""What a job may have limits on."""
_OF_ANY_MODEL = ("temperature", "top_p", "max_tokens", "seed", "stream", "timeout", "retries", "limits")
"""Keys of the file's ``llm`` that another model keeps. The others belong to the model that the file names."""


def overridden(top: Table, overrides: Mapping[str, Any], problems: list[Problem]) -> Table:
    """Return `top` with the values of `overrides` in place of its own; what is wrong is added to `problems`."""
    given = read_mapping({key.replace("-", "_"): value for key, value in overrides.items()}, "overrides")
    special = {key: given.pop(key, ()) for key in ("task", "trainer", "model", "param", "mirror")}
    logger = logger_name(given.pop("logger", "default"))
    if isinstance(budget := given.get("budget"), str):
        given["budget"] = _budget(budget, top.get("budget"), problems)
    given.places = {key: Place(option=option(key)) for key in given}
    for key, word in (("tasks", "task"), ("trainers", "trainer")):
        if special[word]:
            given[key] = Rows(_entry(word, name, option(key)) for name in special[word])
    for key, value in normalise(given, "command line", problems).items():
        if key in ("tasks", "trainers") and special[key.removesuffix("s")]:
            _choose(top, key, value, problems)
            continue
        top.put(key, value, Place(option=given.place(key).option or option(key)))
    _ask(top, special["model"], problems)
    for text in special["param"]:
        _set(top, text, problems)
    if logger != "default":
        _log_with(top, logger)
    _mirror_to(top, special["mirror"])
    return top


def option(key: str) -> str:
    """The option that gives `key`, for the beginning of a sentence."""
    return f"option {_FLAGS.get(key) or '--' + key.replace('_', '-')}"


# ---------------------------------------------------------------------------------------------- tasks and trainers


def _entry(word: str, name: Any, origin: str) -> Table:
    """An entry with the id `name`, which a sentence shows without its place in a list."""
    entry = Table()
    entry.put(word, name, Place(written="", option=origin))
    return entry


def _choose(top: Table, key: str, chosen: Rows, problems: list[Problem]) -> None:
    """Make `chosen` the entries of `top` under `key`. An id that `top` has entries for stands for these."""
    ids = [entry["id"] for entry in chosen]
    twice = {name: None for place, name in enumerate(ids) if name in ids[:place]}
    problems += [Problem(None, f"{name!r} is given twice; give it once", option(key)) for name in twice]
    chosen = Rows(entry for place, entry in enumerate(chosen) if entry["id"] not in ids[:place])
    rows = top.get(key)
    written = list(enumerate(rows)) if isinstance(rows, Rows) else []
    entries, new = Rows(single=True), True
    theirs = short_names(str(row.get("id")) for _, row in written if isinstance(row, Table))
    ours = short_names(map(str, ids))
    for entry in chosen:
        names = {entry["id"], theirs.get(entry["id"]), *(short for short, full in ours.items() if full == entry["id"])}
        same = [(n, row) for n, row in written if isinstance(row, Table) and row.get("id") in names]
        for n, row in same:
            new = False
            entries.append(row)
            entries.lines.append(rows.line_of(n) if isinstance(rows, Rows) else None)
        if not same:
            entries.append(entry)
            entries.lines.append(None)
    top[key] = entries
    if new:
        top.places[key] = Place(written="", option=option(key))
    else:
        entries.single = False


# ----------------------------------------------------------------------------------------------------------- model


def _ask(top: Table, models: Sequence[str], problems: list[Problem]) -> None:
    """Make `models` those that are asked, and the mode what they need."""
    if not models:
        return
    origin = option("model")
    if top.get("mode") == "replay":
        text = f"{models[0]!r} is not asked in mode replay, which gives recorded answers again; leave the option out"
        problems.append(Problem(None, text, origin))
        return
    written = top.pop("llm", None)
    kept = {key: value for key, value in written.items() if key in _OF_ANY_MODEL} if isinstance(written, Table) else {}
    top.pop("llms", None)
    top["mode"] = "stub" if all(map(is_builtin, models)) else "real"
    blocks = Rows(Table({"model": name} if is_builtin(name) else {**kept, "model": name}) for name in models)
    blocks.single = True
    if len(blocks) > 1:
        top["llms"] = blocks
    elif models[0] != "stub":
        top["llm"] = blocks[0]
    for key in ("mode", "llm", "llms"):
        if key in top:
            top.places[key] = Place(written="", option=origin)


# ------------------------------------------------------------------------------------------------------ parameters


def _set(top: Table, text: str, problems: list[Problem]) -> None:
    """Give the trainers of `top` the parameter that `text` (``KEY=VALUE``) names."""
    origin = option("param")
    name, equals, written = text.partition("=")
    trainer, dot, key = name.strip().rpartition(".")
    try:
        value = value_of(written)
    except ConfigError as error:
        problems.append(Problem(None, f"{key}: {error}", origin))
        return
    if not equals or not key:
        problems.append(Problem(None, f"{text!r} is not a parameter; write KEY=VALUE, such as num_steps=3", origin))
        return
    given = Table({key: value})
    problems += [Problem(None, text, origin) for text in find_secrets(Source(root=given)).values()]
    if "trainers" not in top:
        top["trainers"] = _default_trainers()
    rows = top["trainers"] if isinstance(top["trainers"], Rows) else Rows()
    entries = [entry for entry in rows if isinstance(entry, Table)]
    if dot:
        own = [entry for entry in entries if entry.get("id") == canonical(trainer)]
        for entry in own:
            _give(entry, key, value, f"{trainer}.{key}", origin)
        if not own:
            near = hint(trainer, [str(entry.get("id")) for entry in entries])
            problems.append(Problem(None, f"{name}: no trainer of this run is called {trainer!r}{near}", origin))
        return
    for entry in entries:
        _take_out(entry, key)
    shared = top.setdefault("trainer_kwargs", Table())
    if isinstance(shared, Table):  # what is none is refused
        _drop(shared, key)
        shared.put(key, value, Place(written=f"/{key}", option=origin))


def _default_trainers() -> Rows:
    return Rows([Table({"id": trainer.id}) for trainer in RunConfig.model_fields["trainers"].default])


def _give(entry: Table, key: str, value: Any, shown: str, origin: str) -> None:
    """Set `key` in each variant of a trainer's `entry`."""
    _take_out(entry, key)
    variants = entry.setdefault("params_variants", Rows([Table()], single=True))
    for variant in variants if isinstance(variants, Rows) else ():
        if isinstance(variant, Table):
            variant.put(key, value, Place(written=f"/{shown}", option=origin))


def _take_out(entry: Table, key: str) -> None:
    """Take `key` out of a trainer's `entry`. Variants that are equal without it become one."""
    if isinstance(knobs := entry.get("knobs"), Table):
        _drop(knobs, key)
    variants = entry.get("params_variants")
    if not isinstance(variants, Rows):
        return
    changed = [isinstance(variant, Table) and _drop(variant, key) for variant in variants]
    kept = [n for n, variant in enumerate(variants) if not (changed[n] and variant in variants[:n])]
    variants.lines = [variants.line_of(n) for n in kept]
    variants[:] = [variants[n] for n in kept]


def _drop(table: Table, key: str) -> bool:
    """Delete `key` from `table`, with hyphens or underscores; return True if it was there."""
    plain = key.replace("-", "_")
    found = [name for name in table if name.replace("-", "_") == plain]
    for name in found:
        del table[name]
    return bool(found)


def _budget(text: str, written: Any, problems: list[Problem]) -> Table:
    """The budget that `text` gives, with the limits on the whole run that are `written`."""
    found = Table({"run": written["run"]} if isinstance(written, Mapping) and "run" in written else {})
    for part in () if text.strip() == "none" else text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in BUDGETS:
            wanted = f"write one of {', '.join(BUDGETS)} with a number, such as evaluations=200,calls=60, or none"
            problems.append(Problem(None, f"{part.strip()!r} is not a limit; {wanted}", option("budget")))
            continue
        if not value.strip() or name.strip() in found:
            why = "has no number; write one, or leave it out" if not value.strip() else "is given twice; give it once"
            problems.append(Problem(None, f"{name.strip()} {why}", option("budget")))
            continue
        try:
            found[name.strip()] = value_of(value)
        except ConfigError as error:
            problems.append(Problem(None, f"{name.strip()}: {error}", option("budget")))
    return found


# ------------------------------------------------------------------------------------------------ logger and mirrors


def _log_with(top: Table, logger: Any) -> None:
    """Make `logger` that of every trainer entry."""
    if "trainers" not in top:
        top["trainers"] = _default_trainers()
    entries = top["trainers"] if isinstance(top["trainers"], Rows) else []
    for entry in entries:
        if isinstance(entry, Table):
            entry.put("logger", logger, Place(written="/logger", option=option("logger")))


def _mirror_to(top: Table, names: Iterable[str]) -> None:
    """Make copies on the mirrors `names` too; what the file says of one stays."""
    if not names:
        return
    mirrors = top.setdefault("mirrors", Table())
    if isinstance(mirrors, Table):  # any other value is refused later
        for name in names:
            if name not in mirrors:
                mirrors.put(name, Table(), Place(option=option("mirror")))
