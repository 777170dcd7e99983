"""Scripts of the built-in models of a config: checked before planning, part of a job's id by their content, and copied
into the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import write_text
from trace_bench.config.frozen import FrozenDict
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import Provider
from trace_bench.resources import data_dir

if TYPE_CHECKING:
    from trace_bench.gateway.script import Script

HASH = "script"
"""The option of an ``llm`` that holds its script's SHA-256; a config may give it to insist on that content."""


def with_scripts(config: RunConfig) -> RunConfig:
    """`config` with the hash of each script in the ``options`` of its model. A replay does not use the rules.

    Raises:
        ConfigError: a script cannot be read or is wrong.
    """

    def completed(llm: LlmConfig, *path: str | int) -> LlmConfig:
        script = _script(config, llm, *path)
        if script is None:
            return llm
        if config.mode != "replay":
            from trace_bench.gateway.script import parse_rules

            parse_rules(script)
        return llm.model_copy(update={"options": FrozenDict({HASH: script.sha256})})

    changed = {"llms": tuple(completed(llm, "llms", index) for index, llm in enumerate(config.llms))}
    return config.model_copy(update=changed | ({"llm": completed(config.llm, "llm")} if config.llm else {}))


def scripted_providers(config: RunConfig) -> dict[str, Provider]:
    """The scripted models of a config that `with_scripts` has completed, by id.

    Raises:
        ConfigError: a script has been changed since.
    """
    found: dict[str, Provider] = {}
    for llm in models(config):
        if (script := _script(config, llm)) is not None:
            from trace_bench.gateway.script import parse_rules
            from trace_bench.gateway.scripted import ScriptedProvider

            found[llm.name] = ScriptedProvider(parse_rules(script))
    return found


def write_scripts(config: RunConfig, layout: RunLayout) -> None:
    """Copy the scripts into the run, so that it can be continued and repeated without the original files."""
    for llm in models(config):
        if (script := _script(config, llm)) is not None:
            target = layout.script(script.sha256)
            write_text(target, script.text.decode("utf-8"))


def models(config: RunConfig) -> tuple[LlmConfig, ...]:
    """The ``llm`` blocks of `config`."""
    return config.llms or ((config.llm,) if config.llm is not None else ())


def _script(config: RunConfig, llm: LlmConfig, *path: str | int) -> Script | None:
    """The script of `llm`, if it has one.

    Its file is looked for from the current folder, then among the shipped ones, then beside the config, where that is
    the snapshot of a run. Of a snapshot whose script has been changed since, the copy beside it counts.
    """
    if llm.script is None:
        return None
    from trace_bench.gateway.script import read_script  # imported only by runs that have a script

    wanted = llm.options.get(HASH)
    file = Path(llm.script)
    copies = (data_dir("configs").parent / file, Path(config.source.file).parent / "scripts" / f"{wanted}.yaml")
    if path and (strange := sorted(set(llm.options) - {HASH})):
        raise ConfigError(f"{config.source.where((*path, 'options'))}: a script takes no {strange[0]!r}; take it out")
    found = file if file.exists() else next((copy for copy in copies if copy.is_file()), file)
    if path and not found.exists() and (option := config.source.origin((*path, "model"))):
        raise ConfigError(f"{option}: the script {file} does not exist; check its path")
    script = read_script(found)
    if wanted not in (None, script.sha256) and copies[-1].is_file():
        script = read_script(copies[-1])
    if wanted not in (None, script.sha256):
        raise ConfigError(f"{file}: this script has been changed: it was to be the one with the SHA-256 {wanted}")
    return script
