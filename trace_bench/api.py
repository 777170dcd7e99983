"""The package from Python, at the top of `trace_bench`: `run`, `evaluate`, `open_run` and so on."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench import matrix
from trace_bench.analysis.leaderboard_table import MOST_ROWS
from trace_bench.cancellation import Cancellation
from trace_bench.cli.run import DisplayOptions, display_for
from trace_bench.config import load_config
from trace_bench.config.models import BudgetConfig as Budget
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import catalog_of, select
from trace_bench.display.markup import html
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError, ExitCode
from trace_bench.execution.events import Subscriber, ignore
from trace_bench.execution.result import RunResult
from trace_bench.execution.start import run_config
from trace_bench.matrix import Job
from trace_bench.mirrors.attached import mirrored, with_warnings
from trace_bench.notebook import NotebookTable, in_notebook
from trace_bench.planning.completion import complete_models, with_fixtures
from trace_bench.records.runs import find_run

if TYPE_CHECKING:
    from trace_bench.execution.evaluation import Evaluation
    from trace_bench.execution.evaluator import Evaluator, Values

__all__ = ["Budget", "Job", "RunResult", "evaluate", "evaluator", "expand", "load_config", "open_run", "run"]

_LOG = logging.getLogger(__name__)
Config = RunConfig | str | Path | Mapping[str, Any]
"""A loaded config, or anything that `load_config` takes."""


class Jobs(list[Job]):
    """Planned jobs. A notebook shows them as a table."""

    def _repr_html_(self) -> str:
        header = ("job", "task", "trainer", "variant", "model", "seed")
        rows = ((j.job_id, j.task_id, j.trainer_id, j.variant.label, str(j.model["id"]), j.seed) for j in self)
        return html(Table.of(header, rows, ("seed",)).first(MOST_ROWS))


def expand(config: Config, *, roots: Sequence[Path] = ()) -> Jobs:
    """The jobs of `config`, in the order task, trainer, variant, model, seed. No engine is asked, and no task
    code imported.

    Args:
        roots: extra folders with task folders.

    Raises:
        ConfigError: the config is wrong, or does not fit its tasks and trainers; one line per problem.
    """
    loaded = _loaded(config)
    catalog = catalog_of(loaded, roots)
    config = complete_models(with_fixtures(select(loaded, catalog), catalog))
    resolved = resolve(config, catalog)
    return Jobs(matrix.expand(config, resolved.tasks, resolved.trainers))


def run(
    config: Config,
    *,
    budget: Budget | str | None = None,
    roots: Sequence[Path] = (),
    build: bool = True,
    progress: Subscriber | bool | None = None,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> RunResult:
    """Run every job of `config` as ``trace-bench run`` does, continuing an unfinished run of it.

    Args:
        budget: what a job may spend, in place of what `config` says: ``Budget(calls=60)``, or ``"calls=60"`` as the
            option ``--budget`` has it.
        roots: extra folders with task folders.
        build: build images that are missing; False refuses instead.
        progress: True shows the run as it goes on, as a live table in a notebook or a terminal and as lines elsewhere.
            None does so in a notebook alone, False nowhere. A function of yours gets the run's events
            (`trace_bench.execution.events`), one at a time, from one thread.
        stop_wanted: asked often; None, ``"interrupted"`` (jobs end in order) or ``"kill"``.

    Raises:
        ConfigError: before anything is written. EnvironmentUnavailable: no engine, no disk, or no image for any job.
            Interrupted: after everything that had finished was recorded. A job that fails, or cannot run on this
            machine, raises nothing: see `RunResult.ok`.
    """
    config = with_warnings(_loaded(config, budget), os.environ)
    with _shown(progress) as (notify, say), mirrored(config, notify, say) as subscriber:
        stop = Cancellation(stop_wanted)
        return run_config(config, roots=roots, build=build, subscriber=subscriber, say=say, stop=stop)


def evaluate(
    task: str, state: Values | str | None = None, *, split: str = "validation", seed: int = 123, **options: Any
) -> Evaluation:
    """Evaluate one candidate on one task in a sandbox: score, feedback and metrics for each example.

    Args:
        task: its id or short name, as in a config.
        state: values by name, in place of the task's own initial ones; a text is that of the only trainable parameter;
            None is the initial state.
        split: ``train``, ``validation`` or ``test``. The last is held-out data, and is scored as a run scores its best
            state. Held-out data that are looked at again and again are held out no more.
        seed: decides the examples, as in a job with that seed.
        options: of `evaluator`.

    Raises:
        ConfigError, EnvironmentUnavailable: as `run`. EvaluationFailed: its task, a provider or the sandbox failed.
    """
    found: Evaluation = _evaluators().evaluate(task, state, split=split, seed=seed, **options)
    return found


def evaluator(task: str, *, seed: int = 123, **options: Any) -> AbstractContextManager[Evaluator]:
    """A sandbox that evaluates one candidate after the other, for an optimizer of your own.

    Example:
        with trace_bench.evaluator("internal:numeric_param") as score:
            print(score({"guess": 2.5}).score)

    Args:
        task, seed: as of `evaluate`.
        options: ``arguments`` of the task, as ``eval_kwargs`` of a config; ``model`` that programs of the task ask,
            such as ``openai/gpt-4o-mini`` (the stub unless given); ``backend``, ``roots`` and ``build`` as of a run;
            ``config``, further keys of a config, such as ``sandbox`` or ``llm``; ``say``, called with a line for each
            step that takes long.

    Raises:
        ConfigError, EnvironmentUnavailable, EvaluationFailed: as `evaluate`.
    """
    found: AbstractContextManager[Evaluator] = _evaluators().opened(task, seed=seed, **options)
    return found


def _evaluators() -> Any:
    return import_module("trace_bench.execution.evaluator")  # which most who import this package do not need


@contextlib.contextmanager
def _shown(progress: Subscriber | bool | None) -> Iterator[tuple[Subscriber, Callable[[str], None]]]:
    """What shows a run, and what takes a line that is no progress."""
    if progress is None:
        progress = in_notebook()
    if not isinstance(progress, bool):
        yield progress, _LOG.info
    elif not progress:
        yield ignore, _LOG.info
    else:
        display = NotebookTable() if in_notebook() else display_for(DisplayOptions())
        try:
            yield display.notify, display.note
        except BaseException as error:
            display.close(ExitCode.JOB_FAILED, str(error))
            raise
        display.close(ExitCode.OK)


def open_run(name: str | Path, *, runs_dir: str | Path = "runs") -> RunResult:
    """The result of a run that has finished, was killed, or is still running.

    Args:
        name: its folder, its id or the beginning of it, or ``latest``.
        runs_dir: where ids are looked for.

    Raises:
        ConfigError: no run, or more than one. HarnessError: a file of it is damaged.
    """
    return RunResult.read(find_run(str(name), Path(runs_dir)))


def _loaded(config: Config, budget: Budget | str | None = None) -> RunConfig:
    if isinstance(config, RunConfig) and budget is None:
        return config
    if not isinstance(config, RunConfig):
        if not isinstance(budget, Budget):
            return load_config(config, {} if budget is None else {"budget": budget})
        config = load_config(config)
    if isinstance(budget, Budget) and "run" in budget.model_fields_set:
        raise ConfigError("budget: its run limits the whole run; write that into the config (budget.run)")
    given = budget.model_dump(exclude_none=True, exclude={"run"}) if isinstance(budget, Budget) else budget
    checked = load_config({"tasks": [task.id for task in config.tasks]}, {"budget": given}).budget
    return config.changed({"budget": checked.model_copy(update={"run": config.budget.run})})
