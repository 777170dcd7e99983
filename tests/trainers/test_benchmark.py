"""benchmarks/trainers: every search is in it, it is a function of its seeds, and its page is what it says today."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.trainers.compare import README, TASKS, run_cell, searches, tables  # noqa: E402
from benchmarks.trainers.models import MODELS  # noqa: E402

SEARCHES = sorted(searches())


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SEARCHES if n != "NoOp"])
def test_every_search_finds_more_than_the_start_and_the_same_again(name: str) -> None:
    cells = [(name, "hill climbing", "internal:many_param", seed) for seed in (1, 2, 3)]
    first = [run_cell(cell, 60) for cell in cells]
    assert 0 < sum(first) <= 3 and run_cell(cells[0], 60) == first[0]


def test_no_op_finds_nothing_and_a_lazy_model_ends_no_search() -> None:
    assert run_cell(("NoOp", "lazy", "internal:code_param", 1), 60) == 0
    assert run_cell(("PrioritySearch", "lazy", "internal:code_param", 1), 60) >= 0


def test_the_page_shows_every_search_with_intervals() -> None:
    shown = README.read_text(encoding="utf-8")
    assert re.search(r"^20 seeds, 100 evaluations", shown, re.MULTILINE)
    for name in SEARCHES:
        assert re.search(rf"^\| {re.escape(name)} \| \d\.\d+ \[± \d\.\d+\] \|", shown, re.MULTILINE), name


def test_tables_pair_differences_by_seed() -> None:
    """Two searches whose scores rise and fall together differ by a constant: with no interval at all."""
    names = ["NoOp", "random proposals", "best of n", "A"]
    plus = dict(zip(names, (0.0, 0.1, 0.2, 0.2), strict=True))
    scores = {(n, m, t, s): s / 10 + plus[n] for n in names for m in MODELS for t in TASKS for s in (1, 2, 3)}
    text = tables(scores, names, 3, 7)
    (row,) = re.findall(r"^\| A \| 0\.400 \[± (.*?)\] \| (.*) \|$", text, re.MULTILINE)
    assert row[0] == "0.248" and row[1].startswith("+0.200 [± 0.000] better | +0.100 [± 0.000] better | ")
