"""`load_config`: a file becomes a `RunConfig`, or one error that lists everything that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.arguments import describe
from trace_bench.config.llms import LlmConfig, is_builtin
from trace_bench.config.mapping import read_mapping
from trace_bench.config.messages import sentence
from trace_bench.config.models import LOGGERS, RunConfig, logger_name
from trace_bench.config.names import normalise
from trace_bench.config.options import overridden
from trace_bench.config.reader import read
from trace_bench.config.secrets import find_secrets, redact
from trace_bench.config.shipped import find_config
from trace_bench.config.source import Path_, Problem, Rows, Source, Table
from trace_bench.errors import ConfigError
from trace_bench.trainers.names import NO_COUNTERPART

OF_BUILTIN = ("id", "model", "options")
"""Keys of an ``llm`` that a built-in model has a use for."""
_NO_SEEDS = "seeds is empty; the seed 123 is used"


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
    secrets = find_secrets(Source(file, root))
    problems += [Source(file, root).problem(path, text) for path, text in secrets.items()]
    hidden = [Source(file, root).shown(path) for path in secrets]

    top = overridden(normalise(root, file, problems), overrides, problems)
    source = Source(file, top)
    warnings = _warnings(source)
    problems += _repetitions(source)
    problems += _models(source)
    try:
        config = RunConfig.model_validate(top)
    except ValidationError as error:
        # A list with wrong entries is called too short as well, once they are not counted: that is no second problem.
        shown = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
        found = [sentence(source, dict(e)) for e in shown]
        # What is said of a secret is enough: a second sentence about its key adds nothing.
        problems += [problem for problem in found if not any(shown in problem.text for shown in hidden)]
        raise _error(source, problems) from None
    if problems:
        raise _error(source, problems)
    return config.changed(source=Source(file, top, warnings))


def _error(source: Source, problems: list[Problem]) -> ConfigError:
    ordered = sorted(problems, key=lambda p: (p.line is None, p.line or 0))
    lines = dict.fromkeys(redact(" ".join(source.sentence(p).splitlines())) for p in ordered)
    return ConfigError("\n".join(lines))


def _warnings(source: Source) -> tuple[str, ...]:
    """Warnings about values that are read otherwise, or not used. An empty list of seeds is filled in."""
    top, notes = source.root, []
    if isinstance(top.get("seeds"), Rows) and not top["seeds"]:
        notes.append(source.problem(("seeds",), _NO_SEEDS))
        top["seeds"] = Rows([123], top["seeds"].line)
    for key in ("job_timeout", "score_timeout"):
        if top.get(key) == 0 and not isinstance(top[key], bool):
            notes.append(source.problem((key,), f"{key} 0 is read as no limit; write null to say so"))
    if top.get("llm") and not top.get("llms") and top.get("mode", "stub") == "stub" and not _is_builtin(top["llm"]):
        notes.append(source.problem(("llm",), "llm is not used in mode stub, which asks no provider"))
    notes += _other_loggers(source)
    notes += _left_out(source)
    return tuple(redact(source.sentence(note)) for note in notes)


def _other_loggers(source: Source) -> Iterator[Problem]:
    """Replace loggers that do not exist by the default, which records the same; a note for each."""
    trainers = source.root.get("trainers")
    for index, trainer in enumerate(trainers if isinstance(trainers, Rows) else ()):
        name = logger_name(trainer.get("logger", "default")) if isinstance(trainer, Table) else "default"
        if isinstance(name, str) and name not in LOGGERS:
            path: Path_ = ("trainers", index, "logger")
            why = ", which sends what a job does to a service on the network" if name == "WandbLogger" else ""
            text = f"there is no logger {describe(name)} here{why}; default is used (known are {', '.join(LOGGERS)})"
            yield source.problem(path, f"{source.shown(path)}: {text}")
            trainer["logger"] = "default"
            trainer["logger_kwargs"] = Table()


def _left_out(source: Source) -> Iterator[Problem]:
    """Take parameters that have no counterpart here out of the variants of trainers; a note for each."""
    trainers = source.root.get("trainers")
    for index, trainer in enumerate(trainers if isinstance(trainers, Rows) else ()):
        names = NO_COUNTERPART.get(str(trainer.get("id")), {}) if isinstance(trainer, Table) else {}
        variants = trainer.get("params_variants") if names else None
        for number, variant in enumerate(variants if isinstance(variants, Rows) else ()):
            for name in [key for key in variant if key in names] if isinstance(variant, Table) else ():
                why, effective = names[name]
                if variant[name] is None or variant.get("dspy_optimizer", "mipro") not in effective:
                    path: Path_ = ("trainers", index, "params_variants", number, name)
                    yield source.problem(path, f"{source.shown(path)} is left out: {why}")
                    del variant[name]


def _is_builtin(llm: Any) -> bool:
    model = llm.get("model") if isinstance(llm, Mapping) else None
    return isinstance(model, str) and is_builtin(model)


def _models(source: Source) -> list[Problem]:
    """Models that contradict each other or the mode, as far as the file alone shows."""
    top = source.root
    mode = top.get("mode", "stub")
    problems: list[Problem] = []
    if top.get("replay_from") is not None and mode in ("stub", "real"):
        text = f"replay_from is for mode replay, and mode is {mode}; write 'mode: replay', or take replay_from out"
        problems.append(source.problem(("replay_from",), text))
    if top.get("replay_services") is True and mode in ("stub", "real"):
        text = f"replay_services is for mode replay, and mode is {mode}; take it out, or name a run with --replay"
        problems.append(source.problem(("replay_services",), text))
    entries = top.get("llms")
    if not isinstance(entries, Rows) or not entries:
        return problems + _builtin(source, ("llm",), top.get("llm"))
    if top.get("llm"):
        return [source.problem(("llms",), "llm and llms are both given; move llm into llms, or keep one of them")]
    first: dict[str, int] = {}
    for index, llm in enumerate(entries):
        path: Path_ = ("llms", index)
        shown = source.shown(path)
        if top.get("mode", "stub") == "stub" and not _is_builtin(llm):
            model = llm.get("model") if isinstance(llm, Mapping) else llm
            text = (
                f"{shown} is {describe(model)}, but mode stub asks no provider: write 'stub' or 'scripted:FILE', or "
                "'mode: real'"
            )
            problems.append(source.problem(path, text))
        problems += _builtin(source, path, llm)
        name = (llm.get("id") or llm.get("model")) if isinstance(llm, Mapping) else None
        if isinstance(name, str) and (earlier := first.setdefault(name, index)) != index:
            text = f"{shown} and {source.shown(('llms', earlier))} are both called {name!r}; give each an id of its own"
            problems.append(source.problem(path, text))
    return problems


def _builtin(source: Source, path: Path_, llm: Any) -> list[Problem]:
    """Keys of a built-in model that it has no use for, and the name of one on a model that is none."""
    if not isinstance(llm, Table):
        return []
    model, given = llm.get("model"), llm.get("id")
    if not _is_builtin(llm):
        if not isinstance(given, str) or not is_builtin(given):
            return []
        text = f"{source.shown((*path, 'id'))} {given!r} is the name of a built-in model; choose another"
        return [source.problem((*path, "id"), text)]
    return [
        source.problem(
            (*path, key), f"{source.shown((*path, key))} is not used by the built-in model {model!r}; take it out"
        )
        for key, value in llm.items()
        if key in LlmConfig.model_fields and key not in OF_BUILTIN and _says_something(key, value)
    ]


def _says_something(key: str, value: Any) -> bool:
    """Whether `value` is another one than a key that is not given has, as in a run's snapshot."""
    if isinstance(value, Mapping):
        return any(item is not None for item in value.values())
    return value is not None and value != LlmConfig.model_fields[key].default


def _repetitions(source: Source) -> list[Problem]:
    """Entries that would make the same job twice, as far as the file alone shows."""
    top = source.root
    groups: list[tuple[Path_, Any, str]] = [(("seeds",), top.get("seeds"), "seed")]
    tasks = top.get("tasks")
    if isinstance(tasks, Rows) and all(isinstance(task, Table) and "id" in task for task in tasks):
        groups.append((("tasks",), [[task["id"], task.get("eval_kwargs", {})] for task in tasks], "task"))
    trainers = top.get("trainers")
    for index, trainer in enumerate(trainers if isinstance(trainers, Rows) else []):
        if isinstance(trainer, Table):
            groups.append((("trainers", index, "params_variants"), trainer.get("params_variants"), "variant"))
    problems: list[Problem] = []
    for path, items, noun in groups:
        first: dict[str, int] = {}
        for index, item in enumerate(items if isinstance(items, list) else []):
            earlier = first.setdefault(json.dumps(item, sort_keys=True, default=repr), index)
            if earlier == index:
                continue
            line = source.problem((*path, earlier), "").line
            place = source.shown((*path, earlier)) + (f" on line {line}" if line else "")
            shown = source.shown((*path, index))
            problems.append(
                source.problem((*path, index), f"{shown} is the same {noun} as {place}; delete one of them")
            )
    return problems
