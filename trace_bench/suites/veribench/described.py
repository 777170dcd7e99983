"""What the ``task.toml`` of a Lean task leaves out, since it is the same for all: `described` fills it in.

Standard library only: the host reads specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.suites.joined import joined

SIGNATURE = "A Lean 4 file with the declarations of the template, none of them changed but where it says sorry."
WEIGHTS: Mapping[str, float] = {"compiles": 0.1, "tests": 0.5, "theorems": 0.4}
"""Of the parts in the score, where a task does not say."""
WEIGHTS_WITHOUT_THEOREMS: Mapping[str, float] = {"compiles": 0.1, "tests": 0.9}


def _share(doc: str) -> dict[str, Any]:
    return {"direction": "maximize", "failure": 0.0, "range": [0, 1], "doc": doc}


COMMON: Mapping[str, Any] = {
    "interaction": "lean",
    "signature": SIGNATURE,
    "score": {"direction": "maximize", "failure": 0.0, "range": [0, 1]},
    "splits": {"train": 1, "validate": 0, "test": 1},
    "limits": {"wall_seconds": 120, "cpu_seconds": 240, "memory_mb": 8192},
    "metrics": {
        "compiles": _share("1 if Lean compiles the file with its tests."),
        "tests": _share("Share of the hidden tests that pass."),
        "axioms_ok": _share("1 if nothing rests on an axiom beyond the standard ones; sorry aside."),
    },
    "eval_kwargs": {
        "memory_mb": {
            "type": "int",
            "default": 8192,
            "minimum": 512,
            "doc": "Address space of a process of Lean, in MB; Mathlib needs 16384.",
        },
    },
}
_THEOREMS = _share("Share of the frozen theorems that are proved from standard axioms.")
_EQUIVALENCE = _share("Share of the proved theorems that equate the imperative and the functional version.")


def described(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw`, a ``task.toml`` with a table ``[lean]``, and what it does not say itself."""
    lean = raw["lean"]
    proves = bool(lean.get("theorems"))
    weights = WEIGHTS if proves else WEIGHTS_WITHOUT_THEOREMS
    common = joined(COMMON, {"entry": next(iter(lean.get("defines", ())), "the file"), "lean": {"weights": weights}})
    if proves:
        common = joined(common, {"metrics": {"theorems": _THEOREMS}})
    if lean.get("equivalence"):
        common = joined(common, {"metrics": {"imperative_equivalence": _EQUIVALENCE}})
    return joined(common, raw)
