"""`load_config` turns a file into a `RunConfig`, or raises one error that lists its problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.arguments import describe
from trace_bench.config.llms import LlmConfig, is_builtin
from trace_bench.config.messages import problems_of
from trace_bench.config.models import LOGGERS, RunConfig, logger_name
from trace_bench.config.names import normalise
from trace_bench.config.options import overridden
from trace_bench.config.reader import read, read_mapping
from trace_bench.config.secrets import find_secrets, redact
from trace_bench.config.shipped import find_config
from trace_bench.config.source import Path_, Problem, Rows, Source, Table
from trace_bench.errors import ConfigError
from trace_bench.trainers.names import NO_COUNTERPART

OF_BUILTIN = ("id", "model", "options")
"""Keys of an ``llm`` that a built-in model has a use for."""


def load_config(config: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read, check and freeze `config`. Tasks and trainers are looked up later, by `trace_bench.config.resolve`.

    Args:
        config: the path of a YAML or JSON file, the name of a shipped config (``"smoke.yaml"``), or a mapping with
            the keys of such a file.
        overrides: top-level keys that replace those of `config` (``{"max_workers": 4}``), and the words of
            `trace_bench.config.options`.

    Raises:
        ConfigError: the config is wrong. One line per problem: ``FILE, line N: key: what is wrong; what to do``.
    """
    if not isinstance(config, str | Path):
        return parse_config(config, overrides, file="<dict>")
    path = find_config(Path(config))
    problems: list[Problem] = []
    try:
        root = read(path, problems)
    except ConfigError as error:  # it may quote a key that stands in the wrong place
        raise ConfigError(redact(str(error))) from None
    return _config(str(path), root, overrides or {}, problems)


def parse_config(
    data: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, *, file: str = "config"
) -> RunConfig:
    """`load_config` for plain data that has a name of its own in messages, `file`, such as a snapshot.

    Raises:
        ConfigError: the config is wrong.
    """
    return _config(file, read_mapping(data, file), overrides or {}, [])


def _config(file: str, root: Table, overrides: Mapping[str, Any], problems: list[Problem]) -> RunConfig:
    written = Source(file, root)
    secrets = find_secrets(written)
    problems += [written.problem(path, text) for path, text in secrets.items()]
    hidden = [written.shown(path) for path in secrets]

    top = overridden(normalise(root, file, problems), overrides, problems)
    source = Source(file, top)
    warnings = _warnings(source)
    try:
        config = RunConfig.model_validate(top)
    except ValidationError as error:
        # A secret has its own sentence; a second one about its key adds nothing.
        problems += [p for p in problems_of(source, error) if not any(key in p.text for key in hidden)]
    else:
        problems += [source.problem(path, text) for path, text in _contradictions(config, source)]
    if problems:
        ordered = sorted(problems, key=lambda p: (p.line is None, p.line or 0))
        lines = dict.fromkeys(redact(" ".join(source.sentence(p).splitlines())) for p in ordered)
        raise ConfigError("\n".join(lines))
    return config.changed(source=Source(file, top, warnings))


def _warnings(source: Source) -> tuple[str, ...]:
    """Return warnings about values that are replaced or not used. An empty list of seeds is filled in."""
    top, notes = source.root, []
    if isinstance(top.get("seeds"), Rows) and not top["seeds"]:
        notes.append(source.problem(("seeds",), "seeds is empty; the seed 123 is used"))
        top["seeds"] = Rows([123], top["seeds"].line)
    for key in ("job_timeout", "score_timeout"):
        if top.get(key) == 0 and not isinstance(top[key], bool):
            notes.append(source.problem((key,), f"{key} 0 is read as no limit; write null to say so"))
    llm = top.get("llm")
    model = llm.get("model") if isinstance(llm, Table) else None
    unused = llm and not top.get("llms") and top.get("mode", "stub") == "stub"
    if unused and not is_builtin(model if isinstance(model, str) else None):
        notes.append(source.problem(("llm",), "llm is not used in mode stub, which asks no provider"))
    notes += _other_loggers(source)
    notes += _left_out(source)
    return tuple(redact(source.sentence(note)) for note in notes)


def _other_loggers(source: Source) -> Iterator[Problem]:
    """Replace loggers that do not exist by the default, which records the same; a note for each."""
    for path, trainer in _trainers(source):
        name = logger_name(trainer.get("logger", "default"))
        if isinstance(name, str) and name not in LOGGERS:
            path = (*path, "logger")
            why = ", which sends what a job does to a service on the network" if name == "WandbLogger" else ""
            text = f"there is no logger {describe(name)} here{why}; default is used (known are {', '.join(LOGGERS)})"
            yield source.problem(path, f"{source.shown(path)}: {text}")
            trainer["logger"] = "default"
            trainer["logger_kwargs"] = Table()


def _left_out(source: Source) -> Iterator[Problem]:
    """Take parameters that have no counterpart here out of the variants of trainers; a note for each."""
    for path, trainer in _trainers(source):
        names = NO_COUNTERPART.get(str(trainer.get("id")), {})
        variants = trainer.get("params_variants")
        for number, variant in enumerate(variants if isinstance(variants, Rows) else ()):
            for name in [key for key in variant if key in names] if isinstance(variant, Table) else ():
                why, effective = names[name]
                if variant[name] is None or variant.get("dspy_optimizer", "mipro") not in effective:
                    place = (*path, "params_variants", number, name)
                    yield source.problem(place, f"{source.shown(place)} is left out: {why}")
                    del variant[name]


def _trainers(source: Source) -> list[tuple[Path_, Table]]:
    entries = source.root.get("trainers")
    rows = enumerate(entries if isinstance(entries, Rows) else ())
    return [(("trainers", index), entry) for index, entry in rows if isinstance(entry, Table)]


# ------------------------------------------------------------------------------------------------- contradictions


def _contradictions(config: RunConfig, source: Source) -> Iterator[tuple[Path_, str]]:
    """Values that contradict each other, as far as the config alone shows."""
    replays = {
        "replay_from": "write 'mode: replay', or take replay_from out",
        "replay_services": "take it out, or name a run with --replay",
    }
    for key, remedy in replays.items():
        if getattr(config, key) and config.mode != "replay":
            yield (key,), f"{key} is for mode replay, and mode is {config.mode}; {remedy}"
    yield from _repetitions(config, source)
    if config.llm and config.llms:
        yield ("llms",), "llm and llms are both given; move llm into llms, or keep one of them"
        return
    first: dict[str, int] = {}
    for index, llm in enumerate(config.llms):
        path, shown = ("llms", index), source.shown(("llms", index))
        if config.mode == "stub" and not is_builtin(llm.model):
            remedy = "write 'stub' or 'scripted:FILE', or 'mode: real'"
            yield path, f"{shown} is {describe(llm.model)}, but mode stub asks no provider: {remedy}"
        yield from _builtin(source, path, llm)
        name = llm.id or llm.model or ""
        if name and (earlier := first.setdefault(name, index)) != index:
            other = source.shown(("llms", earlier))
            yield path, f"{shown} and {other} are both called {name!r}; give each an id of its own"
    if config.llm:
        yield from _builtin(source, ("llm",), config.llm)


def _builtin(source: Source, path: Path_, llm: LlmConfig) -> Iterator[tuple[Path_, str]]:
    """Keys that a built-in model has no use for, and its name on a model of a provider."""
    if not is_builtin(llm.model):
        if is_builtin(llm.id):
            text = f"{source.shown((*path, 'id'))} {llm.id!r} is the name of a built-in model; choose another"
            yield (*path, "id"), text
        return
    for key, value in llm:
        if key not in OF_BUILTIN and value != LlmConfig.model_fields[key].default:
            shown = source.shown((*path, key))
            yield (*path, key), f"{shown} is not used by the built-in model {llm.model!r}; take it out"


def _repetitions(config: RunConfig, source: Source) -> Iterator[tuple[Path_, str]]:
    """Entries that would make the same job twice."""
    groups: list[tuple[Path_, Sequence[Any], str]] = [
        (("seeds",), config.seeds, "seed"),
        (("tasks",), [(task.id, task.eval_kwargs) for task in config.tasks], "task"),
    ]
    for index, trainer in enumerate(config.trainers):
        groups.append((("trainers", index, "params_variants"), trainer.params_variants, "variant"))
    for path, items, noun in groups:
        first: dict[str, int] = {}
        for index, item in enumerate(items):
            earlier = first.setdefault(json.dumps(item, sort_keys=True), index)
            if earlier != index:
                line = source.problem((*path, earlier), "").line
                place = source.shown((*path, earlier)) + (f" on line {line}" if line else "")
                shown = source.shown((*path, index))
                yield (*path, index), f"{shown} is the same {noun} as {place}; delete one of them"
