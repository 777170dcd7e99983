"""Commands in this process: as `tests.integration.cli`, but without an interpreter's start, which costs half a second
each. What no test should see, a traceback, is raised."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from tests.integration.cli import Done
from trace_bench.cli import _code


def here(*arguments: str) -> Done:
    """Run ``trace-bench ARGUMENTS``. An error that has no sentence of its own goes through."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["trace-bench", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _code()
    return Done(code, out.getvalue(), err.getvalue())
