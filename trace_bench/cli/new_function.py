"""Write the files of a task whose evaluator is a function of the user."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.suites.foreign.source import FAILURE, LARGE_IMAGE, needs_large_image, parsed
from trace_bench.suites.score_function import SEED
from trace_bench.worker import source_scan

DIRECTIONS = ("maximize", "minimize")
_SECONDS = 30
_PLACEHOLDER = '''def {entry}(*arguments):
    """Write here the program that a search starts from."""
    raise NotImplementedError("the task has no program to start from; write one in program.py")
'''


def task_texts(function: str, program: Path | None, direction: str, entry: str, title: str) -> dict[str, str]:
    """Return the texts of the files of a task by their names.

    Args:
        function: ``FILE:NAME``.
        program: the start of a search; it defines `entry`, or a single function. None: a placeholder that fails.
        entry: the name of the task.

    Raises:
        ConfigError: a file cannot be read or does not define its function, or the direction is unknown.
    """
    if direction not in DIRECTIONS:
        raise ConfigError(f"--direction {direction}: unknown direction; use maximize or minimize")
    file, _, name = function.rpartition(":")
    path = Path(file)
    if not file or path.suffix != ".py" or not path.stem.isidentifier() or path.name == "program.py":
        raise ConfigError(f"--function {function}: expected FILE.py:NAME, as evaluate.py:score (not program.py)")
    source, scorer = _function(path, name, "--function")
    arguments = scorer.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    if not source_scan.positional(scorer) or source_scan.positional(scorer)[0] == SEED:
        raise ConfigError(f"{path}, line {scorer.lineno}: {name} must take the program first: def {name}(program)")
    needed = [each.arg for each, default in source_scan.defaults(scorer) if default is None][1:]
    if set(needed) - {SEED} or SEED in {each.arg for each in arguments.posonlyargs}:
        raise ConfigError(
            f"{path}, line {scorer.lineno}: {name} is called with the program, and with seed=… if it takes one; give "
            "each other argument a default"
        )
    start = _PLACEHOLDER.format(entry=entry)
    if program is not None:
        defined = list(source_scan.functions(parsed(program)))
        entry = defined[0] if len(defined) == 1 else entry
        start, _ = _function(program, entry, "--program")
    return {
        "task.toml": _toml(path, name, start, direction, entry, title, draws=SEED in names),
        path.name: source,
        "program.py": start,
    }


def _function(path: Path, name: str, option: str) -> tuple[str, source_scan.Function]:
    """The text of a file, and its function `name`."""
    tree = parsed(path)
    found = source_scan.functions(tree)
    if name not in found:
        known = ", ".join(found) or "none"
        raise ConfigError(f"{option} {path}: defines no function {name!r} at its top level (found: {known})")
    try:
        return path.read_text(encoding="utf-8"), found[name]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _toml(path: Path, name: str, start: str, direction: str, entry: str, title: str, *, draws: bool) -> str:
    failure = FAILURE if direction == "maximize" else -FAILURE
    doc = _documented(path, name)
    count = 5 if draws else 1
    statement = f"{doc or f'Write the function {entry}.'} The score is to be {direction}d."
    image = LARGE_IMAGE if needs_large_image(parsed(path)) else "llm4ad"
    scorer = f"{path.name}:{name}"
    lines = [
        f"title = {_text(title)}",
        "# The optimizer reads the statement: say what the program gets, what it returns, and what makes it good.",
        f"statement = {_text(statement)}",
        'interaction = "solve"',
        f"entry = {_text(entry)}",
        f"signature = {_text(source_scan.signature_of(start, entry))}",
        f"image = {_text(image)}",
        "",
        "[score]",
        f"function = {_text(scorer)}",
        f"direction = {_text(direction)}",
        "# A program that fails gets this. It must be worse than every other score.",
        f"failure = {failure}",
        "",
        "[splits]",
        f"train = {count}",
        f"validate = {count if draws else 0}",
        f"test = {count if draws else 0}",
        "",
        "# Of a program, for the evaluation of one example.",
        "[limits]",
        f"wall_seconds = {_SECONDS}",
        f"cpu_seconds = {_SECONDS}",
        "memory_mb = 1024",
        "",
        "[candidates]",
        'template = "program.py"',
    ]
    return "\n".join(lines) + "\n"


def _documented(path: Path, name: str) -> str:
    """The docstring of the function that scores."""
    return " ".join((ast.get_docstring(source_scan.functions(parsed(path))[name]) or "").split())


def _text(value: str) -> str:
    """`value` as TOML, whose strings are JSON's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
