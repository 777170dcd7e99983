"""The commands that look at a run, called in this process."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from trace_bench import cli
from trace_bench.artifacts.layout import RunLayout


def told(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["trace-bench", *arguments])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli._code()
            except SystemExit as end:
                code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def commands(run: RunLayout, job_id: str) -> dict[str, tuple[str, ...]]:
    """All that look at a run and one of its jobs."""
    name, runs = run.run_id, ("--runs-dir", str(run.root.parent))
    return {
        "ls": ("ls", *runs),
        "show": ("show", name, *runs),
        "show --json": ("show", name, "--json", *runs),
        "show job": ("show", name, job_id, *runs),
        "show job --json": ("show", name, job_id, "--json", *runs),
        "logs": ("logs", name, *runs),
        "logs job": ("logs", name, job_id, *runs),
        "logs job --events": ("logs", name, job_id, "--events", *runs),
        "llm ls": ("llm", "ls", name, *runs),
        "llm show": ("llm", "show", name, job_id, *runs),
    }


def all_read(run: RunLayout, job_id: str) -> None:
    """Every command says something of the run, and nothing that a terminal would take for a command of its own."""
    for command, arguments in commands(run, job_id).items():
        code, out, err = told(*arguments)
        assert code == 0 and "Traceback" not in err, (command, err)
        strange = {c for c in out + err if not c.isprintable()} - {"\n", "\t"}
        assert not strange, (command, strange)
