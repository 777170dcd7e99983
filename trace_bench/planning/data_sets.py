"""The published data that a config reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trace_bench.config.models import RunConfig
from trace_bench.config.selectors import catalog_of, select
from trace_bench.config.task_choices import FIXTURE, fixture_default
from trace_bench.errors import ConfigError
from trace_bench.suites import data_sources
from trace_bench.suites.catalog import Catalog
from trace_bench.suites.data_sets import missing_splits
from trace_bench.suites.registry import TaskEntry


def needed(config: RunConfig, roots: Sequence[Path] = ()) -> list[str]:
    """The published data that `config` reads and that are not on this machine, or damaged there: names for ``data
    fetch``, collections first. Tasks that take the fixture need none.

    Raises:
        ConfigError: a task is unknown, or its spec is broken.
    """
    catalog = catalog_of(config, roots)
    config = select(config, catalog)
    named = config.data_root
    source = data_sources.SOURCES.get(named) if named is not None and not Path(named).exists() else None
    missing = [source.name] if source is not None and data_sources.kept(source) is None else []
    if unknown := [task.id for task in config.tasks if catalog.find(task.id) is None]:
        raise ConfigError("\n".join(catalog.not_found(name) for name in dict.fromkeys(unknown)))
    for task in config.tasks:
        entry = catalog.find(task.id)
        if entry is None or task.id in missing:
            continue
        asked = task.eval_kwargs.get(FIXTURE, config.eval_kwargs.get(FIXTURE))
        takes_fixture = asked if isinstance(asked, bool) else fixture_default(catalog.spec(entry))
        if not takes_fixture and not _is_whole(catalog, entry):
            missing.append(task.id)
    return missing


def _is_whole(catalog: Catalog, entry: TaskEntry) -> bool:
    """Return True if a task reads no data set, or all that it reads is here and can be read."""
    if any(map(missing_splits, catalog.data_sets([entry]))):
        return False
    spec = catalog.spec(entry)
    try:
        (spec.owner or catalog.suites[entry.suite]).data_files(spec.raw, fetched=True)
    except ConfigError:
        return False
    return True
