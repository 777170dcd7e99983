"""Local search on tours that counts what it does: 2-opt and moves of single cities over lists of near ones.

Deterministic: cities wait in a queue, moves are tried in a fixed order, the first that gains is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GAIN = 1e-9
"""A move must gain more than this share of the mean distance given; less may be rounding."""

Matrix = Sequence[Sequence[float]]


class TourSearch:
    """Improves one tour, maybe under one distance matrix after another.

    Args:
        tour: cities 0 .. n-1 in order, n >= 5; changed in place.
        near: of each city the others that moves may join it to.

    Attributes:
        evaluated: moves whose gain was worked out so far.
    """

    def __init__(self, tour: list[int], near: Sequence[Sequence[int]]) -> None:
        self.tour = tour
        self.evaluated = 0
        self._near = near
        self._at = [0] * len(tour)
        self._number()

    def improve(self, distances: Matrix, active: Iterable[int], *, least: float, most: int) -> set[int]:
        """Make moves that gain more than `least` until none is left at the cities that wait, or `most` were made.

        Args:
            distances: symmetric.
            active: cities that wait at first; those whose edges a move changes come to wait, too.

        Returns:
            The cities whose edges changed.
        """
        queue = list(dict.fromkeys(active))
        waiting = [False] * len(self.tour)
        for city in queue:
            waiting[city] = True
        touched: set[int] = set()
        head = made = 0
        while head < len(queue) and made < most:
            city = queue[head]
            head += 1
            waiting[city] = False
            while made < most and (ends := self._turned(city, distances, least) or self._moved(city, distances, least)):
                made += 1
                touched.update(ends)
                for end in ends:
                    if not waiting[end] and end != city:
                        waiting[end] = True
                        queue.append(end)
        return touched

    def _turned(self, city: int, d: Matrix, least: float) -> tuple[int, ...]:
        """The first 2-opt move that joins `city` to a near one: the ends of its edges; empty if none gains."""
        tour, at, n = self.tour, self._at, len(self.tour)
        row = d[city]
        for way in (1, -1):
            follow = tour[(at[city] + way) % n]
            after = d[follow]
            for other in self._near[city]:
                saved = row[follow] - row[other]
                if saved <= least:
                    continue
                beyond = tour[(at[other] + way) % n]
                self.evaluated += 1
                if saved + d[other][beyond] - after[beyond] > least:
                    self._reverse(*((follow, other) if way == 1 else (other, follow)))
                    return city, follow, other, beyond
        return ()

    def _moved(self, city: int, d: Matrix, least: float) -> tuple[int, ...]:
        """The first move of `city` to beside a near one."""
        tour, at, n = self.tour, self._at, len(self.tour)
        row = d[city]
        before, after = tour[at[city] - 1], tour[(at[city] + 1) % n]
        saved = row[before] + row[after] - d[before][after]
        for other in self._near[city]:
            gain = saved - row[other]
            for side in (1, -1):
                beyond = tour[(at[other] + side) % n]
                if beyond == city:
                    continue
                self.evaluated += 1
                if gain + d[other][beyond] - row[beyond] > least:
                    tour.remove(city)
                    tour.insert(tour.index(other) + (side == 1), city)
                    self._number()
                    return city, before, after, other, beyond
        return ()

    def _reverse(self, first: int, last: int) -> None:
        """Turn the part of the tour from `first` on to `last`, or the rest, which comes to the same."""
        tour, at, n = self.tour, self._at, len(self.tour)
        i, j = at[first], at[last]
        count = (j - i) % n + 1
        if 2 * count > n:
            i, j, count = (j + 1) % n, (i - 1) % n, n - count
        for _ in range(count // 2):
            tour[i], tour[j] = tour[j], tour[i]
            at[tour[i]], at[tour[j]] = i, j
            i, j = (i + 1) % n, (j - 1) % n

    def _number(self) -> None:
        for place, city in enumerate(self.tour):
            self._at[city] = place


def nearest_neighbour(distances: Matrix) -> list[int]:
    """The tour from city 0 on that always goes to the closest city left; ties go to the lower number."""
    tour, left = [0], list(range(1, len(distances)))
    while left:
        row = distances[tour[-1]]
        city = min(left, key=row.__getitem__)
        left.remove(city)
        tour.append(city)
    return tour
