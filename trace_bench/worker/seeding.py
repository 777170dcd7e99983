"""The global generators of Python and NumPy."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_GENERATOR = "numpy.random.mtrand"


def seed_generators(seed: int) -> None:
    """Seed Python's generator with `seed` and NumPy's with its last 32 bits: now, or when it is imported.

    NumPy is not imported for that: most jobs do without it, and it takes longer than the rest of a phase's start.
    """
    random.seed(seed)
    low = seed % (1 << 32)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(low)
    else:
        sys.meta_path.insert(0, _SeedOnImport(low))


class _SeedOnImport:
    """Lets NumPy's generator be found as usual, and seeds it as soon as it has been made."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _GENERATOR:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module: Any) -> None:
                execute(module)
                module.seed(self._seed)

            spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec
