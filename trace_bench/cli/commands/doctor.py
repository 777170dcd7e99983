"""``doctor``: what this machine has and lacks, one line each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument

from trace_bench.cli import complete
from trace_bench.cli.options import BackendLookedAt, ConfigOption, Json, one_config
from trace_bench.display.console import emit, emit_json
from trace_bench.errors import ExitCode


def doctor(
    backend: BackendLookedAt = "auto",
    config: Annotated[
        Path | None,
        Argument(metavar="CONFIG", help="Check the hosts, or Modal, as it has them.", autocompletion=complete.configs),
    ] = None,
    config_option: ConfigOption = None,
    as_json: Json = False,
) -> int:
    """Say what this machine has and lacks.

    Example: trace-bench doctor
    """
    from trace_bench.cli.machine import examine

    findings = []
    for finding in examine(backend, one_config(config, config_option)):
        findings.append(finding)
        if not as_json:
            mark = "ok     " if finding.ok else ("MISSING" if finding.needed else "note   ")
            emit(f"{mark} {finding.name:<10} {(finding.short if sys.stdout.isatty() else '') or finding.detail}")
    if as_json:
        emit_json([{"name": f.name, "ok": f.ok, "needed": f.needed, "detail": f.detail} for f in findings])
    return int(ExitCode.OK if all(f.ok or not f.needed for f in findings) else ExitCode.ENVIRONMENT)
