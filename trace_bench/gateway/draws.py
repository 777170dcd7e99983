"""Random draws that depend on names, not on the order in which they are made.

A generator that calls share gives other numbers when threads run in another order. Here every use has a key of its own
(seed, slot, purpose …), and its stream is SHA-256 of that key in counter mode, which is the same for every Python
version and machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from trace_bench.artifacts import jsonio

T = TypeVar("T")


class Draws:
    """A stream of draws for one key.

    >>> Draws(1, "step=0").below(10) == Draws(1, "step=0").below(10)
    True
    """

    def __init__(self, seed: int, *key: str | int) -> None:
        self._key = hashlib.sha256(jsonio.canonical([seed, *key])).digest()
        self._block = 0

    def unit(self) -> float:
        """Uniform in [0, 1), 53 bits."""
        return (int.from_bytes(self._next()[:8], "big") >> 11) / (1 << 53)

    def below(self, n: int) -> int:
        """Uniform in 0 … n-1 (bias below n / 2^256)."""
        return int.from_bytes(self._next(), "big") % n

    def flip(self) -> bool:
        return self.below(2) == 1

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`, which must not be empty."""
        return items[self.below(len(items))]

    def hex(self, digits: int) -> str:
        return self._next().hex()[:digits]

    def sub(self, *key: str | int) -> Draws:
        """An independent stream named below this one."""
        return Draws(int.from_bytes(self._key, "big"), *key)

    def _next(self) -> bytes:
        self._block += 1
        return hashlib.sha256(self._key + self._block.to_bytes(8, "big")).digest()
