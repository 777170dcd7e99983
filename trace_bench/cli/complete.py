"""Values that a shell is offered for the arguments and options of a command line.

A shell waits for them, so they come from folders and from the metadata of packages. No task or engine is looked into,
no trainer but those that the line names, and what cannot be read is left out.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer

from trace_bench.errors import TraceBenchError

SUFFIXES = (".yaml", ".yml", ".json")
_BREAKS = ":="
"""Characters at which bash begins a new word, and our names do not."""


def tasks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of tasks."""
    from trace_bench.suites.registry import discover

    with contextlib.suppress(TraceBenchError, OSError):
        return [entry.id for entry in discover(None, [Path(root) for root in ctx.params.get("root") or ()])]
    return []


def trainers(incomplete: str) -> list[str]:
    """Names of trainers."""
    from trace_bench.resources import plug_ins

    return [point.name for point in plug_ins("trace_bench.trainers")]


def params(ctx: typer.Context, incomplete: str) -> list[str]:
    """Parameters of the trainers that are named before."""
    from trace_bench.trainers.registry import load_trainer

    found: dict[str, None] = {}
    for name in ctx.params.get("trainer") or ():
        with contextlib.suppress(TraceBenchError):
            found |= dict.fromkeys(f"{param.name}=" for param in load_trainer(name).params)
    return list(found)


def models(incomplete: str) -> list[str]:
    """The built-in model, and the one that the environment names."""
    return ["stub", *filter(None, [os.environ.get("TRACE_LITELLM_MODEL")])]


def backends(incomplete: str) -> list[str]:
    """Names of backends."""
    return ["auto", "docker", "modal", "local"]


def configs(incomplete: str) -> list[str]:
    """Config files beside what is written, and the shipped ones."""
    from trace_bench.resources import data_dir

    above = incomplete[: incomplete.rfind("/") + 1]
    found = [above + path.name for path in _listed(Path(above)) if path.suffix in SUFFIXES or path.is_dir()]
    if above:
        return sorted(found)
    shipped = [path.name for path in _listed(data_dir("configs")) if path.suffix in SUFFIXES]
    files = [name for name in found if Path(name).suffix in SUFFIXES]
    return sorted({*files, *shipped})


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """``latest``, and ids of runs in the folder of ``--runs-dir``."""
    from trace_bench.artifacts.layout import RunLayout

    folder = Path(str(ctx.params.get("runs_dir") or "runs"))
    ids = sorted((path.name for path in _listed(folder) if RunLayout(path).meta.is_dir()), reverse=True)
    return ["latest", *ids] if ids else []


def jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of the jobs of the run that is named before."""
    from trace_bench.records.runs import find_run

    with contextlib.suppress(TraceBenchError, OSError):
        layout = find_run(str(ctx.params.get("run")), Path(str(ctx.params.get("runs_dir") or "runs")))
        return sorted(path.name for path in _listed(layout.jobs))
    return []


def _listed(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []


@contextlib.contextmanager
def without_rich() -> Iterator[None]:
    """Have typer find no rich, which it would import to take markup out of help texts: half the time of an answer."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]


def whole_in_bash(answer: Callable[[], int]) -> int:
    """Have `answer` complete the words of the line as a person sees them, and print what bash is to put in.

    Bash takes ``internal:nu`` for three words, and replaces the third of them.
    """
    from trace_bench.display.console import emit

    words, cut = rejoined(os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0")))
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said):
        try:
            code = answer()
        except SystemExit as end:
            code = int(end.code or 0)
    for line in filter(None, said.getvalue().splitlines()):
        emit(line.removeprefix(cut))
    return code


def rejoined(words: Sequence[str], last: int) -> tuple[list[str], str]:
    """The words up to number `last` before bash cut them at `_BREAKS`, and what it has cut off the last one.

    >>> rejoined(["trace-bench", "run", "-t", "internal", ":", "nu"], 5)
    (['trace-bench', 'run', '-t', 'internal:nu'], 'internal:')
    """
    whole: list[str] = []
    cut, open_ended = "", False
    for word in words[: last + 1]:
        is_break = bool(word) and not word.strip(_BREAKS)
        if whole and (is_break or open_ended):
            cut = whole[-1] + (word if is_break else "")
            whole[-1] += word
        else:
            whole.append(word)
            cut = ""
        open_ended = is_break
    return whole, cut
