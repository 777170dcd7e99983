"""What a real Lean says of a starter task: only where there is one, on PATH or named in LEAN."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.suites.veribench.on_lean import built, complaints, outcome, without_source_check
from tests.suites.veribench.support import TASKS
from trace_bench.suites.veribench.lean import VARIABLE

pytestmark = [
    pytest.mark.lean,
    pytest.mark.skipif(
        shutil.which(os.environ.get(VARIABLE, "lean")) is None,
        reason=f"there is no Lean here: put 'lean' on PATH, or name it in {VARIABLE} (docs/how-to/lean.md)",
    ),
]
MEMORY_MB = int(os.environ.get("LEAN_MEMORY_MB", "8192"))
"""Address space of a process; the build for WebAssembly needs 60000."""
FOLDER = TASKS / "gcd"


def test_files_score_what_is_said_of_them() -> None:
    with built(FOLDER, memory_mb=MEMORY_MB, timeout_seconds=500) as problem:
        found = [outcome(problem, "gcd", FOLDER / f"{name}.lean", "test") for name in
                 ("template", "gold", "partial", "cheating")]  # fmt: skip
        assert complaints(FOLDER, found) == []


def test_a_text_that_nobody_has_recorded_is_judged(tmp_path: Path) -> None:
    own = tmp_path / "own.lean"
    own.write_text((FOLDER / "gold.lean").read_text().replace("gcdSteps", "euclid").replace("fuel", "steps"))
    with built(FOLDER, memory_mb=MEMORY_MB, timeout_seconds=500) as problem:
        assert outcome(problem, "gcd", own, "test").score == 1.0


def test_weakened_statements_earn_nothing(tmp_path: Path) -> None:
    weak = tmp_path / "weak.lean"
    template = (FOLDER / "template.lean").read_text()
    weak.write_text(template.replace("(a b d : Nat)", "(a b d : Nat) (never : False)").replace(
        "d ∣ gcd a b := by sorry", "d ∣ gcd a b := never.elim"))  # fmt: skip
    with built(FOLDER, memory_mb=MEMORY_MB, timeout_seconds=500) as problem:
        found = without_source_check(problem, "gcd", weak)
        assert found.score == 0.0 and "gcd_greatest has another type than in the template" in found.feedback
