"""How soon a run can be over, from its limits alone: how fast sandboxes are created, how many there may be, how many
start at a time, how long each takes to start, which starts fail, and how long jobs take.

`lower_bound` holds for every order of the jobs and every controller; `schedule` is what a controller without any cost
of its own makes of the jobs in the order given. All times are seconds from the first creation on.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Start(NamedTuple):
    """What comes of one creation: after so many seconds the sandbox is there, or has failed to start."""

    seconds: float
    fails: bool


@dataclass(frozen=True)
class Limits:
    """Attributes:
    per_second: creations, at even distances.
    sandboxes: at a time, those that start among them.
    starting: at a time.
    """

    per_second: float
    sandboxes: int
    starting: int


class Bound(NamedTuple):
    """Each of the four holds; the largest is the bound.

    Attributes:
        creations: one creation follows the other at a distance, and each sandbox that comes about lives as long as its
            job: among the k jobs that take longest, the last one is created as the k-th at the earliest.
        sandboxes: all seconds of all sandboxes, those that fail among them, over as many as there may be.
        starts: all seconds of all starts over as many as there may be at a time.
        longest: the longest job.
        made: creations that are needed.
    """

    creations: float
    sandboxes: float
    starts: float
    longest: float
    made: int

    @property
    def seconds(self) -> float:
        return max(self.creations, self.sandboxes, self.starts, self.longest)

    @property
    def binds(self) -> str:
        """Which of them is the largest."""
        return max(("creations", "sandboxes", "starts", "longest"), key=lambda name: float(getattr(self, name)))


def lower_bound(jobs: Sequence[float], starts: Sequence[Start], limits: Limits) -> Bound:
    """No schedule of jobs that take `jobs` seconds is over sooner, if the creations come out as `starts` in that order.

    Raises:
        ValueError: `starts` has too few that do not fail.
    """
    made = needed(len(jobs), starts)
    used = starts[:made]
    came = [start.seconds for start in used if not start.fails]
    quickest = min(came, default=0.0)
    distance = 1.0 / limits.per_second
    at = [i * distance for i, start in enumerate(used) if not start.fails]
    longest_first = sorted(jobs, reverse=True)
    creations = max((when + quickest + job for when, job in zip(at, longest_first, strict=True)), default=0.0)
    starting = sum(start.seconds for start in used)
    return Bound(
        creations,
        (starting + sum(jobs)) / limits.sandboxes,
        starting / min(limits.starting, limits.sandboxes),
        quickest + max(jobs, default=0.0),
        made,
    )


def schedule(jobs: Sequence[float], starts: Sequence[Start], limits: Limits) -> float:
    """When the last of `jobs` ends, if each is created in turn as soon as the limits allow it, and a start that failed
    is made again before any other."""
    distance = 1.0 / limits.per_second
    waiting = list(reversed(range(len(jobs))))
    running: list[float] = []
    """Ends of jobs that have started, a heap."""
    starting: list[tuple[float, int, bool]] = []
    """Ends of starts, a heap: when, of which job, whether it fails."""
    now = over = free_at = 0.0
    made = 0
    while waiting or starting:
        while starting and starting[0][0] <= now:
            when, job, fails = heapq.heappop(starting)
            if fails:
                waiting.append(job)
            else:
                heapq.heappush(running, when + jobs[job])
                over = max(over, when + jobs[job])
        while running and running[0] <= now:
            heapq.heappop(running)
        room = len(running) + len(starting) < limits.sandboxes and len(starting) < limits.starting
        if waiting and room and now >= free_at:
            start = starts[made]
            made += 1
            heapq.heappush(starting, (now + start.seconds, waiting.pop(), start.fails))
            free_at = now + distance
            continue
        events = [heap[0] for heap in (running,) if heap] + [heap[0][0] for heap in (starting,) if heap]
        if waiting and room:
            events.append(free_at)
        now = min(event for event in events if event > now) if any(event > now for event in events) else now
    return over


def needed(jobs: int, starts: Sequence[Start]) -> int:
    """How many of `starts` there have to be until `jobs` have not failed.

    Raises:
        ValueError: there are too few.
    """
    came = 0
    for number, start in enumerate(starts):
        if came == jobs:
            return number
        came += not start.fails
    if came < jobs:
        raise ValueError(f"{jobs} jobs need more creations than {len(starts)}")
    return len(starts)
