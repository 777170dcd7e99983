"""The command ``trace-bench``: one module per command, each imported only when it is used."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import TracebackType

from trace_bench.errors import ExitCode, TraceBenchError


def main() -> None:
    """Run the command line. An error of the user or the machine becomes a sentence and an exit code."""
    if sys.getfilesystemencoding() == "ascii" and not sys.flags.utf8_mode:
        _restart_in_utf8()
    hurry()
    sys.excepthook = _defect
    code = _code()
    # Without this, the interpreter looks for garbage once more before it ends, for nothing.
    gc.freeze()
    sys.exit(code)


def _restart_in_utf8() -> None:
    """Start the command again in Python's UTF-8 mode, and what it starts too.

    Python chooses that mode itself in the locales C and POSIX, unless it is told not to (``PYTHONUTF8=0``). With ASCII
    no name of a file that is not English can be opened.
    """
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def hurry() -> None:
    """Make the start of this process faster; to be called before the first large import."""
    # What is imported stays: looking for garbage among it again and again costs a fifth of the start. Commands that
    # take long call `collect_garbage`.
    gc.disable()
    # Else pydantic reads the metadata of every installed package in search of plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def collect_garbage() -> None:
    """Undo `hurry`'s setting in a command that takes long; what has been imported is left out."""
    gc.freeze()
    gc.enable()


def _code() -> int:
    try:
        return int(import_module("trace_bench.cli.app").run_app())
    except TraceBenchError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _say("interrupted", ExitCode.INTERRUPTED)
    except UnicodeEncodeError as error:
        if sys.getfilesystemencoding() == "utf-8":
            raise  # a defect
        from trace_bench.config.reader import locale_here

        return _say(
            f"{error.object!r} cannot be the name of a file in this locale ({locale_here()}); set a UTF-8 locale",
            ExitCode.ENVIRONMENT,
        )
    except OSError as error:
        if error.strerror is None:
            raise
        # A full disk, a folder without rights, a file that went away: the machine's, whichever module met it.
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror}; correct that and try again", ExitCode.ENVIRONMENT)


def _defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a defect, with secrets masked."""
    import traceback

    from trace_bench.display.console import note_block

    note_block("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _say(message: str, code: ExitCode) -> int:
    from trace_bench.display.console import note_block

    note_block(f"error: {message}")
    return int(code)
