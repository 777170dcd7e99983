"""The display of a run for a terminal: a table that is drawn again while jobs run, below lines for failures.

Events only change a `Tally`. A separate thread draws, at most every `INTERVAL` seconds: a slow terminal delays no job,
and the clocks continue between events. The table is removed at the end; the result has its content.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from trace_bench.artifacts.contract import Direction
from trace_bench.cli.displays import Display, event_line, wait
from trace_bench.cli.tally import Running, Tally, TaskBest, outcome_of
from trace_bench.display.names import shared_parameters, without
from trace_bench.display.table import UNPROTECTED, Table, dollars, number
from trace_bench.display.terminal import fit
from trace_bench.display.text import clean_line
from trace_bench.execution.events import Event, GapsMeasured, JobFinished, JobQueued, JobRetried, RunStarted
from trace_bench.records.integrity import MARK

INTERVAL = 0.25
"""Shortest time between two pictures, in seconds."""
SHARE = 0.05
"""Largest share of a core that drawing takes."""
_RUNNING = ("task", "trainer", "variant", "model", "seed", "host", "step", "best", "cost", "s", "waits")
_TASKS = ("task", "best", "trainer", "variant", "model", "jobs")
_RIGHT = frozenset({"seed", "step", "best", "cost", "s", "jobs"})
_ELASTIC = {"waits": 12, "host": 6, "variant": 8, "task": 14, "trainer": 10, "model": 8}
_KEPT = ("step", "best", "trainer")
"""Columns that stay without content."""


class LiveTable(Display):
    """Progress on stderr, which must be a terminal.

    Args:
        console: where to draw; None is stderr.
    """

    def __init__(
        self,
        shown_warnings: Sequence[str] = (),
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(shown_warnings)
        self._console = console or Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._clock = clock
        self._tally = Tally((), 1, clock)
        self._lock = threading.Lock()
        self._above: deque[Text] = deque()
        self._over = threading.Event()
        self._drawer: threading.Thread | None = None

    # -- events of the run ---------------------------------------------------------------------------------------

    def notify(self, event: Event) -> None:
        super().notify(event)
        if isinstance(event, RunStarted):
            self._tally = Tally(event.jobs, event.workers, self._clock)
            self._drawer = threading.Thread(target=self._draw, name="live", daemon=True)
            self._drawer.start()
            return
        with self._lock:
            self._tally.apply(event)
        match event:
            case JobQueued() | GapsMeasured():
                self._add(event_line(event), "")
            case JobRetried():
                self._add(event_line(event), "yellow")
            case JobFinished(_, row) if outcome_of(row) in ("failed", "interrupted"):
                self._add(event_line(event), "red" if outcome_of(row) == "failed" else "yellow")

    def note(self, text: str) -> None:
        self._add(text, "")

    def alert(self, text: str) -> None:
        if self._drawer is None:
            super().alert(text)
        else:
            self._add(text, "bold")

    def close(self, exit_code: int, error: str | None = None) -> None:
        self._over.set()
        if self._drawer is not None:
            self._drawer.join()
        else:
            self._flush()

    # -- drawing -------------------------------------------------------------------------------------------------

    def _add(self, text: str, style: str) -> None:
        self._above.append(
            Text(clean_line(text), style=style)
        )  # takes no lock: a handler of a signal may be the caller

    def _draw(self) -> None:
        live = Live(
            console=self._console,
            get_renderable=self._picture,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,  # the result may go elsewhere
            vertical_overflow="crop",
        )
        with contextlib.suppress(OSError), live:  # a terminal may go away; the run does not
            self._draw_with(live.refresh)
            self._flush()

    def _draw_with(self, refresh: Callable[[], object]) -> None:
        """Call `refresh` until the run is over, in at most `SHARE` of the time."""
        interval = INTERVAL
        while not self._over.wait(interval):
            began = time.thread_time()
            self._flush()
            refresh()
            interval = max(INTERVAL, (time.thread_time() - began) / SHARE)

    def _flush(self) -> None:
        while self._above:
            self._console.print(self._above.popleft(), soft_wrap=True)

    def _picture(self) -> RenderableType:
        with self._lock:
            size = self._console.size
            run_id = self.start.run_id if self.start else ""
            return picture(self._tally, run_id, size.width, size.height - 1)  # but for the cursor's line


def picture(tally: Tally, run_id: str, width: int, height: int) -> RenderableType:
    """The state of a run in at most `height` lines of `width` columns; rows that have no place are counted instead."""
    running, tasks = list(tally.running.values()), list(tally.tasks.values())
    for_running, for_tasks = _shares(max(0, height - 2), len(running), len(tasks))
    now = tally.clock()
    shared = _shared(tally)
    several = len({job.model for job in tally.jobs}) > 1
    parts: list[RenderableType] = [*_header(tally, run_id)]
    parts += _table(_RUNNING, [_running_row(each, shared, several, now) for each in running], for_running, width)
    if len(tasks) + 2 > for_tasks:  # those that have something to show first
        tasks.sort(key=lambda task: task.score is None)
    parts += _table(_TASKS, [_task_row(each, shared, several) for each in tasks], for_tasks, width)
    return Group(*parts[: max(0, height)])


def _shares(space: int, running: int, tasks: int) -> tuple[int, int]:
    """Lines for the table of running jobs and for that of tasks: what both need, or about half each."""
    needs_running, needs_tasks = running + 2 if running else 0, tasks + 2 if tasks else 0
    for_running = min(needs_running, max(space - needs_tasks, (space + 1) // 2, min(space, 3)))
    for_tasks = min(needs_tasks, space - for_running)
    return for_running, for_tasks


def _header(tally: Tally, run_id: str) -> tuple[Text, Text]:
    eta = tally.eta()
    first = f"run {run_id}   elapsed {duration(tally.elapsed)}"
    if eta is not None and eta >= 1:  # below a second, jobs take longer than the mean
        first += f"   ETA {duration(eta)}"
    first += f"   {tally.tokens:,} tokens   ${dollars(tally.cost_usd)}"
    counts = tally.counts
    infra = f" ({tally.infrastructure} by infrastructure)" if tally.infrastructure else ""
    second = [
        f"{tally.done}/{len(tally.jobs)} done",
        f"{counts['ok']} ok",
        f"{counts['failed']} failed{infra}",
        f"{len(tally.running) - tally.starting} running",
        f"{tally.starting} starting" if tally.starting else "",
        f"{tally.waiting} waiting",
        f"{counts['skipped']} skipped",
        f"{counts['interrupted']} interrupted" if counts["interrupted"] else "",
        f"{tally.flagged} flagged (!)" if tally.flagged else "",
    ]
    return _line(first, "bold"), _line("   ".join(filter(None, second)), "")


def _shared(tally: Tally) -> frozenset[str]:
    """The part that all variants of the run share: the whole variant if there is only one."""
    variants = {job.variant for job in tally.jobs}
    return frozenset(variants if len(variants) == 1 else shared_parameters(variants))


def _variant(text: str, shared: frozenset[str]) -> str:
    return "" if text in shared else without(text, shared)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], space: int, width: int) -> list[RenderableType]:
    """In at most `space` lines, an empty one before it included; nothing where there is no row, or no place for one."""
    if not rows or space < 3:
        return []
    count = len(rows) if len(rows) + 2 <= space else space - 3
    parts: list[RenderableType] = [Text("")]
    if count:
        table, foot = fit(Table.of(header, rows[:count], _RIGHT, shrink=_ELASTIC), width, _KEPT)
        table.header_style = "dim"
        parts += [table, *(_line(line, "dim") for line in foot[: space - count - 2])]
    if count < len(rows):
        parts.append(_line(f"… and {len(rows) - count} more", "dim"))
    return parts


def _running_row(running: Running, shared: frozenset[str], several: bool, now: float) -> tuple[str, ...]:
    job = running.job
    return (
        job.task_id,
        job.trainer_id,
        _variant(job.variant, shared),
        job.model if several else "",
        str(job.seed),
        running.host,
        "-" if running.step is None else str(running.step),
        _best(running.best, job.score_direction),
        f"${dollars(running.cost_usd)}" if running.cost_usd else "",
        f"{now - running.since:.0f}",
        _waits(running, now),
    )


def _waits(running: Running, now: float) -> str:
    if running.waits_until > now:
        return wait(running.waits_until - now, running.waits_for)
    return "" if running.up else "for its sandbox"


def _task_row(task: TaskBest, shared: frozenset[str], several: bool) -> tuple[str, ...]:
    row = task.row
    return (
        task.task_id,
        _best(task.score, task.direction) + (MARK if row and row.integrity_flags else ""),
        row.trainer_id + (UNPROTECTED if row.integrity == "unprotected" else "") if row else "",
        _variant(row.variant, shared) if row else "",
        row.model if row and several else "",
        f"{task.done}/{task.planned}",
    )


def _best(value: float | None, direction: Direction) -> str:
    return f"{number(value)} {'↑' if direction == 'maximize' else '↓'}"


def _line(text: str, style: str) -> Text:
    return Text(clean_line(text), style=style, no_wrap=True, overflow="ellipsis")


def duration(seconds: float) -> str:
    """``m:ss``, from an hour on ``h:mm:ss``."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
