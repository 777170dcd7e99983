"""``validate``: see `trace_bench.cli.validate`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import (
    BackendOption,
    ConfigArgument,
    ConfigOption,
    DataRoot,
    Json,
    NoBuild,
    Roots,
    Suites,
    given,
    one_config,
    whole_number,
)
from trace_bench.errors import ConfigError


def validate(
    config: ConfigArgument = None,
    config_option: ConfigOption = None,
    root: Roots = None,
    data_root: DataRoot = None,
    bench: Suites = None,
    strict: Annotated[
        bool, Option("--strict", help="Check trainable parameters too; print every job and write the manifest.")
    ] = False,
    runs_dir: Annotated[
        str | None, Option(metavar="FOLDER", help="With --strict, write the manifest to this folder.")
    ] = None,
    backend: BackendOption = None,
    no_build: NoBuild = False,
    max_workers: Annotated[
        int | None, Option(metavar="NUMBER", parser=whole_number, help="Build this many problems at a time.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check a config and build its problems, without training, scoring or asking a model.

    Example: trace-bench validate smoke.yaml --strict
    """
    from trace_bench.cli.validate import validate_command

    path = one_config(config, config_option)
    if path is None:
        raise ConfigError("no config is named; name one, such as trace-bench validate smoke.yaml")
    return validate_command(
        path,
        given(runs_dir=runs_dir, data_root=data_root, max_workers=max_workers, backend=backend),
        roots=root or [],
        bench=bench,
        strict=strict,
        build=not no_build,
        as_json=as_json,
    )
