"""The command ``trace-bench``: one module per command, each imported only when it is used."""

from __future__ import annotations

import sys
from importlib import import_module

from trace_bench.errors import ExitCode, TraceBenchError


def main() -> None:
    """Entry point: every error that is the user's or the machine's is a sentence and an exit code."""
    try:
        import_module("trace_bench.cli.app").app()
    except TraceBenchError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(int(ExitCode.INTERRUPTED))
    except BrokenPipeError:
        # The reader of our output has had enough.
        sys.stderr.close()
        sys.exit(int(ExitCode.OK))
