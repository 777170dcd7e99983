"""Scripts of the built-in models of a config: checked before planning, part of a job's id by their content, and copied
into the run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import write_text
from trace_bench.config.frozen import FrozenDict
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import Provider
from trace_bench.resources import data_dir

HASH = "script"
"""The option of an ``llm`` that holds its script's SHA-256; a config may give it to insist on that content."""


def with_scripts(config: RunConfig) -> RunConfig:
    """`config` with the hash of each script in the ``options`` of its model. A replay does not use the rules.

    Raises:
        ConfigError: a script cannot be read or is wrong.
    """

    def completed(llm: LlmConfig, *path: str | int) -> LlmConfig:
        if (strange := sorted(set(llm.options) - {HASH})) and llm.script is not None:
            raise ConfigError(
                f"{config.source.where((*path, 'options'))}: a script takes no {strange[0]!r}; take it out"
            )
        if (script := _script(config, llm, *path)) is None:
            return llm
        if config.mode != "replay":
            from trace_bench.gateway.scripted import read_rules  # imported only by runs that have a script

            read_rules(script.path)
        return llm.model_copy(update={"options": FrozenDict({HASH: script.sha256})})

    changed = {"llms": tuple(completed(llm, "llms", index) for index, llm in enumerate(config.llms))}
    return config.model_copy(update=changed | ({"llm": completed(config.llm, "llm")} if config.llm else {}))


def scripted_providers(config: RunConfig) -> dict[str, Provider]:
    """The scripted models of a config that `with_scripts` has completed, by id.

    Raises:
        ConfigError: a script has been changed since.
    """
    providers: dict[str, Provider] = {}
    for name, script in _scripts(config).items():
        from trace_bench.gateway.scripted import ScriptedProvider, read_rules

        providers[name] = ScriptedProvider(read_rules(script.path))
    return providers


def write_scripts(config: RunConfig, layout: RunLayout) -> None:
    """Copy the scripts into the run, so that it can be continued and repeated without the original files."""
    for script in _scripts(config).values():
        write_text(layout.script(script.sha256), script.text.decode("utf-8"))


@dataclass(frozen=True)
class _Script:
    path: Path
    text: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


def _scripts(config: RunConfig) -> dict[str, _Script]:
    """The scripts of `config` by the names of their models."""
    models = config.llms or ((config.llm,) if config.llm is not None else ())
    return {llm.name: script for llm in models if (script := _script(config, llm)) is not None}


def _script(config: RunConfig, llm: LlmConfig, *path: str | int) -> _Script | None:
    """The script of `llm`, if it has one.

    Its file is looked for from the current folder, then among the shipped ones, then beside the config, where that is
    the snapshot of a run. Of a snapshot whose script has been changed since, the copy beside it counts.
    """
    if llm.script is None:
        return None
    wanted, file = llm.options.get(HASH), Path(llm.script)
    copies = (data_dir("configs").parent / file, Path(config.source.file).parent / "scripts" / f"{wanted}.yaml")
    chosen = file if file.exists() else next((copy for copy in copies if copy.is_file()), file)
    try:
        script = _Script(chosen, chosen.read_bytes())
        if wanted not in (None, script.sha256) and copies[-1].is_file():
            script = _Script(copies[-1], copies[-1].read_bytes())
    except OSError as error:
        place = config.source.origin((*path, "model")) or config.source.where((*path, "model"))
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise ConfigError(f"{place}: the script {file} {why}; check its path") from None
    if wanted not in (None, script.sha256):
        raise ConfigError(f"{file}: this script has been changed: it was to be the one with the SHA-256 {wanted}")
    return script
