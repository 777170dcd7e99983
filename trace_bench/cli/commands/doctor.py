"""``doctor``: what this machine has and lacks, one line each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli import complete
from trace_bench.cli.options import BackendLookedAt, ConfigOption, Json, one_config
from trace_bench.display.console import emit, emit_json
from trace_bench.errors import ConfigError, ExitCode


def doctor(
    conformance: Annotated[
        bool, Option("--conformance", help="Run the checks that every backend passes, on one of them.")
    ] = False,
    backend: BackendLookedAt = "auto",
    config: Annotated[
        Path | None,
        Argument(metavar="CONFIG", help="Check the hosts, or Modal, as it has them.", autocompletion=complete.configs),
    ] = None,
    config_option: ConfigOption = None,
    image: Annotated[
        str | None, Option(metavar="REF", help="Use this image, which has a python3; default: that of core.")
    ] = None,
    only: Annotated[str | None, Option(metavar="TEXT", help="Run only checks with TEXT in their name.")] = None,
    as_json: Json = False,
) -> int:
    """Say what this machine has and lacks.

    Example: trace-bench doctor
    """
    path = one_config(config, config_option)
    if conformance:
        from trace_bench.cli.conformance import conformance_command

        return conformance_command(backend=backend, config=path, image=image, only=only, as_json=as_json)
    if image or only:
        raise ConfigError("--image and --only go with --conformance; add it, or leave them out.")
    from trace_bench.cli.machine import examine

    findings = []
    for finding in examine(backend, path):
        findings.append(finding)
        if not as_json:
            mark = "ok     " if finding.ok else ("MISSING" if finding.needed else "note   ")
            emit(f"{mark} {finding.name:<10} {(finding.short if sys.stdout.isatty() else '') or finding.detail}")
    if as_json:
        emit_json([{"name": f.name, "ok": f.ok, "needed": f.needed, "detail": f.detail} for f in findings])
    return int(ExitCode.OK if all(f.ok or not f.needed for f in findings) else ExitCode.ENVIRONMENT)
