"""``evaluate``: score one state on one task."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.cli import complete
from trace_bench.cli.options import AcceptDrift, BackendOption, Json, NoBuild, Roots, whole_number
from trace_bench.display.console import emit, emit_json, emit_table, note
from trace_bench.display.table import number
from trace_bench.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from trace_bench.execution.evaluation import Evaluation

Model = Annotated[
    str | None,
    Option("--model", "-m", metavar="MODEL", help="Let programs ask this model.", autocompletion=complete.models),
]
SPLITS = ("train", "validation", "test")


def evaluate(
    task: Annotated[
        str, Argument(metavar="TASK", help="The id or short name of a task.", autocompletion=complete.tasks)
    ],
    state: Annotated[
        Path | None,
        Option(metavar="FILE", help="Take the state of this file: JSON with values by name, or the only parameter."),
    ] = None,
    values: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="Set this trainable parameter; can be repeated."),
    ] = None,
    split: Annotated[str, Option(metavar="SPLIT", help="Use the train, validation or test examples.")] = "validation",
    seed: Annotated[int, Option(metavar="SEED", parser=whole_number, help="Take the examples of this seed.")] = 123,
    argument: Annotated[
        list[str] | None,
        Option("--argument", metavar="NAME=VALUE", help="Give the task this argument; can be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        Option(
            "--model", "-m", metavar="MODEL", help="Let programs of the task ask this.", autocompletion=complete.models
        ),
    ] = None,
    root: Roots = None,
    backend: BackendOption = None,
    no_build: NoBuild = False,
    accept_drift: AcceptDrift = False,
    as_json: Json = False,
) -> int:
    """Score one state of a task in a sandbox: score, feedback and metrics for each example.

    Example: trace-bench evaluate llm4ad:circle_packing --state program.py
    """
    from trace_bench.cli.problem_checks import arguments_of
    from trace_bench.cli.signals import stopping
    from trace_bench.execution import evaluator

    if split not in SPLITS:
        raise ConfigError(f"--split: there is no {split!r}; write one of {', '.join(SPLITS)}")
    if state is not None and values:
        raise ConfigError("--state and --set contradict each other; give one of them")
    given = arguments_of(values) if values else _read(state) if state is not None else None
    with stopping("stopping: the sandbox is removed") as stop:
        found = evaluator.evaluate(
            task, given, split=split, seed=seed, stop=stop,
            arguments=arguments_of(argument or [], "--argument"),
            model=model, backend=backend, roots=root or [], build=not no_build, say=note,
            config={"images": {"accept_drift": accept_drift}},
        )  # fmt: skip
    if as_json:
        emit_json({**asdict(found), "failed": found.failed})
    else:
        _print(found)
    return int(ExitCode.OK)


def _print(found: Evaluation) -> None:
    emit_table(found.table())
    emit()
    better = "higher" if found.direction == "maximize" else "lower"
    failed = f", {found.failed} failed" if found.failed else ""
    count = len(found.examples)
    examples = f"{count} {found.split} example{'' if count == 1 else 's'}{failed}"
    means = "".join(f", {name} {number(value)}" for name, value in found.metrics.items() if name != "score")
    emit(f"{found.task_id}: {number(found.score)} ({better} is better){means}, over {examples}")


def _read(path: Path) -> Any:
    """The state in a file: JSON with values by name, or the text of the only parameter.

    Raises:
        ConfigError: it cannot be read, or is JSON of another kind.
    """
    from trace_bench.artifacts.jsonio import JsonError, loads

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--state {path}: {getattr(error, 'strerror', None) or error}; name a readable file"
        ) from None
    if path.suffix != ".json":
        return text
    try:
        found = loads(text.encode())
    except JsonError as error:
        raise ConfigError(f'--state {path}: {error}; write values by name, such as {{"x": 2.5}}') from None
    if not isinstance(found, dict):
        raise ConfigError(f'--state {path}: it is no object; write values by name, such as {{"x": 2.5}}')
    return found
