"""What scheduling tasks share: start times and their checks, bounds, Gantt charts, and Taillard's files.

A *shop* has jobs of one operation on each machine. ``times[j][k]`` is how long operation k of job j takes, and
``machines[j][k]`` the machine that it needs; machines count from 0. All times are integers, so nothing is rounded.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, schedule

Table = Sequence[Sequence[int]]
Span = tuple[int, int, str]
"""Start and end of something, and what it is called."""


# -- what came back


def start_times(value: Any, times: Table, horizon: int) -> list[list[int]]:
    """An integer within 0 .. `horizon` for each operation."""
    rows = checks.sequence(value, "start_times", length=len(times))
    return [
        checks.integers(row, f"start_times[{j}]", length=len(times[j]), low=0, high=horizon)
        for j, row in enumerate(rows)
    ]


def horizon(times: Table) -> int:
    """The time that all operations take one after another: by then a schedule must have ended."""
    return sum(map(sum, times))


def makespan(starts: Table, times: Table) -> int:
    """When the last operation ends."""
    return max(s + t for job, spent in zip(starts, times, strict=True) for s, t in zip(job, spent, strict=True))


def overlaps(where: str, spans: Iterable[Span]) -> Iterator[str]:
    """A sentence for each span that starts before an earlier one has ended. Spans of no length take no place."""
    last: Span | None = None
    for span in sorted((s for s in spans if s[0] < s[1]), key=lambda s: s[:2]):
        if last is not None and span[0] < last[1]:
            yield f"{where}: {span[2]} starts at {span[0]} before {last[2]}, started at {last[0]}, ends at {last[1]}"
        if last is None or span[1] > last[1]:
            last = span


def machine_overlaps(starts: Table, times: Table, machines: Table) -> Iterator[str]:
    """A sentence for each operation that starts on a machine which still works on another."""
    spans: list[list[Span]] = [[] for _ in range(machine_count(machines))]
    for j, job in enumerate(starts):
        for k, start in enumerate(job):
            spans[machines[j][k]].append((start, start + times[j][k], f"operation {k} of job {j}"))
    for machine, row in enumerate(spans):
        yield from overlaps(f"machine {machine}", row)


def late_ends(starts: Table, times: Table, latest: int) -> Iterator[str]:
    """A sentence for each operation that ends after `latest`."""
    for j, job in enumerate(starts):
        for k, start in enumerate(job):
            if start + times[j][k] > latest:
                end = start + times[j][k]
                yield f"operation {k} of job {j} ends at {end}, after {latest}, the sum of all processing times"


# -- bounds


def one_machine_bound(jobs: Iterable[tuple[int, int, int]]) -> int:
    """No order of `jobs` on one machine ends earlier; each is (head, time, tail), its tail running on elsewhere.

    Jackson's preemptive schedule: of the jobs that are there, the one with the longest tail (Carlier, 1982).
    """
    waiting = sorted(jobs)
    ready: list[tuple[int, int]] = []  # (-tail, time left)
    now = best = at = 0
    while at < len(waiting) or ready:
        if not ready:
            now = max(now, waiting[at][0])
        while at < len(waiting) and waiting[at][0] <= now:
            _, time, tail = waiting[at]
            heapq.heappush(ready, (-tail, time))
            at += 1
        tail, left = heapq.heappop(ready)
        worked = left if at == len(waiting) else min(left, waiting[at][0] - now)
        now += worked
        if worked < left:
            heapq.heappush(ready, (tail, left - worked))
        else:
            best = max(best, now - tail)
    return best


def job_shop_bound(times: Table, machines: Table) -> int:
    """A lower bound of the makespan if the operations of a job keep their order: of each machine alone, with what
    its jobs have to do before and after."""
    on: list[list[tuple[int, int, int]]] = [[] for _ in range(machine_count(machines))]
    for spent, needed in zip(times, machines, strict=True):
        total, head = sum(spent), 0
        for time, machine in zip(spent, needed, strict=True):
            on[machine].append((head, time, total - head - time))
            head += time
    return max(map(one_machine_bound, on))


def loads(times: Table, machines: Table) -> list[int]:
    """The work of each machine."""
    found = [0] * machine_count(machines)
    for spent, needed in zip(times, machines, strict=True):
        for time, machine in zip(spent, needed, strict=True):
            found[machine] += time
    return found


def machine_count(machines: Table) -> int:
    return 1 + max(map(max, machines))


# -- words and pictures


def utilisation(starts: Table, times: Table, machines: Table) -> str:
    """Which operation ends last, and which machine works how much of the makespan."""
    end = makespan(starts, times)
    last = next((j, k) for j, job in enumerate(starts) for k, start in enumerate(job) if start + times[j][k] == end)
    work = loads(times, machines)
    most = work.index(max(work))
    longest = max(range(len(times)), key=lambda j: sum(times[j]))
    return (
        f"Operation {last[1]} of job {last[0]} ends last, on machine {machines[last[0]][last[1]]}. Machines work "
        f"{sum(work) / (len(work) * end):.1%} of the makespan {end}; the busiest, machine {most}, has {work[most]} "
        f"to do and job {longest} is the longest with {sum(times[longest])}."
    )


def gantt(starts: Table, times: Table, machines: Table) -> Drawing:
    """A row for each machine, a colour for each job."""
    rows: list[list[tuple[float, float, int]]] = [[] for _ in range(machine_count(machines))]
    for j, job in enumerate(starts):
        for k, start in enumerate(job):
            rows[machines[j][k]].append((start, start + times[j][k], j))
    return schedule(rows)


# -- published data


def read_shops(text: str, *, routes: bool) -> list[dict[str, Any]]:
    """The instances in a file as Taillard (1993) has them.

    Above each part stands a line of words: the sizes (number of jobs, number of machines, seeds, bounds), the
    processing times and, if `routes`, the machines, which count from 1. With routes a row is a job; without, the
    rows of times are machines. The upper bound that the line of words names is the best known makespan.

    Raises:
        DataError: the text is of another format.
    """
    parts, heads = list(_parts(text)), [line for line in text.splitlines() if any(c.isalpha() for c in line)]
    step = 3 if routes else 2
    if not parts or len(parts) % step:
        raise DataError(f"has {len(parts)} headed parts; each instance has {step}")
    found = []
    for at in range(0, len(parts), step):
        sizes, body = parts[at], parts[at + 1]
        n, m = sizes.count("the number of jobs", most=10_000), sizes.count("the number of machines", most=1000)
        if not n or not m:
            raise DataError("has an instance without jobs or machines")
        across, down = (m, n) if routes else (n, m)
        rows = [[body.count("a processing time") for _ in range(across)] for _ in range(down)]
        body.end()
        one: dict[str, Any] = _best_known(heads[at], sizes) | {
            "times": rows if routes else [list(job) for job in zip(*rows, strict=True)]
        }
        if routes:
            one["machines"] = [[machine - 1 for machine in parts[at + 2].integers(m, "a machine")] for _ in range(n)]
            parts[at + 2].end()
            for j, row in enumerate(one["machines"]):
                if sorted(row) != list(range(m)):
                    raise DataError(f"has a job, number {j + 1}, that does not name each of the machines 1 .. {m} once")
        found.append(one)
    return found


def _best_known(head: str, sizes: Numbers) -> dict[str, Any]:
    """What follows the numbers of jobs and machines, as `head` names it: seeds, ``upper bound``, ``lower bound``."""
    names = [name.strip() for name in re.split(r",| and ", head.lower().strip().rstrip(":"))]
    values = dict(zip(names[2:], iter(lambda: None if sizes.done else sizes.real("a bound"), None), strict=False))
    return {"best_known": values["upper bound"]} if values.get("upper bound") else {}


def _parts(text: str) -> Iterator[Numbers]:
    """The numbers below each line of words; they know the lines of the whole text."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if any(c.isalpha() for c in line)]
    if any(line.strip() for line in lines[: heads[0] if heads else None]):
        raise DataError("line 1: a line of words such as 'number of jobs, number of machines …' must come first")
    for head, following in pairwise([*heads, len(lines)]):
        yield Numbers("\n" * (head + 1) + "\n".join(lines[head + 1 : following]))
