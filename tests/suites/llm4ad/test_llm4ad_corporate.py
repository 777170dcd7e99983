"""Corporate structuring: trees of ownership, and what taxes leave of profits that pass through them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
CORPORATE = "llm4ad:optimization/co_bench/corporate_structuring_co_bench"


def chain_of_three(code: int) -> dict[str, Any]:
    """Country 2 is owned by 1, and 1 by the target 0; country 1 taxes foreign income by `code`."""
    held = np.zeros((3, 3))
    held[2, 1], held[1, 0] = 0.1, 0.05
    return {
        "target": 0,
        "tax_codes": np.array([1, code, 1]),
        "foreign_rates": np.array([0.0, 0.4, 0.0]),
        "domestic_rates": np.array([0.2, 0.3, 0.25]),
        "profits": np.array([100.0, 200.0, 400.0]),
        "withholding": held,
    }


def after_tax(instance: dict[str, Any], owners: list[int], country: int) -> tuple[float, float]:
    """What a country has after tax, and the profits of it and all below: the statement, written down again."""
    code, f = int(instance["tax_codes"][country]), float(instance["foreign_rates"][country])
    profit = float(instance["profits"][country])
    arrived = []
    for child, owner in enumerate(owners):
        if owner == country:
            has, gross = after_tax(instance, owners, child)
            arrived.append((has * (1 - float(instance["withholding"][child, country])), gross))
    received, below = sum(r for r, _ in arrived), sum(p for _, p in arrived)
    tax = {
        1: 0.0,
        2: f * received,
        3: sum(max(0.0, r - (1 - f) * p) for r, p in arrived),
        4: max(0.0, received - (1 - f) * below),
    }[code]
    return profit * (1 - float(instance["domestic_rates"][country])) + received - tax, profit + below


@pytest.mark.parametrize(("code", "tax"), [(1, 0), (2, 0.4 * 270), (3, 270 - 0.6 * 400), (4, 270 - 0.6 * 400)])
def test_each_code_taxes_foreign_income_as_the_statement_says(code: int, tax: float, task: GetTask) -> None:
    at_one = 200 * 0.7 + 400 * 0.75 * 0.9 - tax
    assert task(CORPORATE).verdict(chain_of_three(code), [-1, 0, 1]).score == pytest.approx(80 + at_one * 0.95)


def test_credit_world_wide_sets_one_country_off_against_another_and_by_source_does_not(task: GetTask) -> None:
    instance = chain_of_three(1) | {"domestic_rates": np.array([0.0, 0.5, 0.1]), "withholding": np.zeros((3, 3))}
    instance |= {"foreign_rates": np.array([0.4, 0.0, 0.0]), "profits": np.array([0.0, 100.0, 100.0])}
    by_source = instance | {"tax_codes": np.array([3, 1, 1])}
    world_wide = instance | {"tax_codes": np.array([4, 1, 1])}
    assert task(CORPORATE).verdict(by_source, [-1, 0, 0]).score == pytest.approx(50 + 60)
    assert task(CORPORATE).verdict(world_wide, [-1, 0, 0]).score == pytest.approx(min(50 + 90, 120))


@pytest.mark.parametrize("seed", range(5))
def test_no_tree_beats_the_best_of_all_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(CORPORATE)
    small = one.instance(seed, n_countries=5)
    n, target = len(small["profits"]), small["target"]
    free = [[-1] if i == target else [j for j in range(-1, n) if j != i] for i in range(n)]
    valid = [list(owners) for owners in product(*free) if not one.broken(small, list(owners))]
    scores = [one.verdict(small, owners).score for owners in valid]
    assert scores == pytest.approx([after_tax(small, owners, target)[0] for owners in valid])
    bound = one.judge.best([small])
    assert bound is not None and one.judge.worst([small]) <= min(scores) <= max(scores) <= bound
    assert 0.97 * max(scores) <= one.play(one.program("reference"), small) <= max(scores) + 1e-9


def test_without_taxes_on_foreign_income_the_bound_is_reached(task: GetTask) -> None:
    one = task(CORPORATE)
    for seed in range(3):
        instance = one.instance(seed) | {"foreign_rates": np.zeros(len(one.instance(seed)["profits"]))}
        instance["tax_codes"] = np.ones_like(instance["tax_codes"])
        assert one.play(one.program("reference"), instance) == pytest.approx(one.judge.best([instance]))


def test_a_target_with_credits_never_keeps_more_of_foreign_profits_than_its_own_rate_leaves(task: GetTask) -> None:
    free = chain_of_three(1) | {"domestic_rates": np.zeros(3), "withholding": np.zeros((3, 3))}
    free |= {"foreign_rates": np.array([0.4, 0.0, 0.0])}
    for code, kept in ((1, 600), (2, 0.6 * 600), (3, 0.6 * 600), (4, 0.6 * 600)):
        instance = free | {"tax_codes": np.array([code, 1, 1])}
        assert task(CORPORATE).judge.best([instance]) == pytest.approx(100 + kept)
        assert task(CORPORATE).verdict(instance, [-1, 0, 1]).score == pytest.approx(100 + kept)


def test_each_broken_rule_is_named(task: GetTask) -> None:
    one, made = task(CORPORATE), chain_of_three(1)
    idle = made | {"profits": np.array([100.0, 0.0, 400.0])}
    assert one.broken(made, [-1, 0, 1]) == one.broken(idle, [-1, -1, 0]) == []
    assert one.broken(made, [1, 0, 1])[0] == "country 0 is the target and must have the owner -1, not 1"
    assert one.broken(made, [-1, -1, 0]) == ["country 1 has a profit of 200 and is not in the structure"]
    assert one.broken(idle, [-1, -1, 1]) == ["country 2 is owned by country 1, which is not in the structure"]
    assert one.broken(made, [-1, 2, 1]) == ["the countries 1, 2 own each other in a circle"]
    assert one.broken(made, [-1, 1, 1]) == ["the countries 1 own each other in a circle"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([-1, 0], "must have 3 entries, not 2"),
        ([-1, 0, 3], "must be within -1 .. 2"),
        ([-1, 0, -2], "must be within -1 .. 2"),
        ([-1, 0, 1.0], "must be an int, not the number 1.0"),
        ([-1, 0, True], "must be an int, not True"),
        ({1: 0, 2: 1}, "must be a list, not a dict"),
        ([-1, 0, 10**300], "an integer of"),
    ],
)
def test_what_are_no_owners_is_refused(bad: object, says: str, task: GetTask) -> None:
    assert says in task(CORPORATE).refusal(chain_of_three(2), lambda *_: bad)


@given(seed=st.integers(0, 2**32), factor=st.floats(0.01, 100))
def test_other_numbers_for_countries_change_nothing_and_money_scales(seed: int, factor: float) -> None:
    one = task_of(CORPORATE)
    made = one.instance(seed, n_countries=12)
    rng = np.random.default_rng(seed)
    n, target = len(made["profits"]), made["target"]
    owners, placed = [-1] * n, [target]
    for country in rng.permutation(n).tolist():
        if country != target:
            owners[country] = placed[int(rng.integers(len(placed)))]
            placed.append(country)
    score = one.verdict(made, owners).score
    assert score == pytest.approx(after_tax(made, owners, target)[0])
    names = rng.permutation(n)
    back = np.argsort(names)
    moved = {k: v[back] if k != "withholding" else v[np.ix_(back, back)] for k, v in made.items() if k != "target"}
    moved["target"] = int(names[target])
    renamed = [-1 if owners[i] == -1 else int(names[owners[i]]) for i in back]
    assert one.verdict(moved, renamed).score == pytest.approx(score)
    assert one.judge.best([moved]) == pytest.approx(one.judge.best([made]))
    richer = made | {"profits": made["profits"] * factor}
    assert one.verdict(richer, owners).score == pytest.approx(score * factor)


def test_published_files_are_read(task: GetTask) -> None:
    text = "3 2\n1 0.30 0.25 100\n4 0.20 0.10 0\n2 0.35 0.30 50.5\n0 .1 .2\n.3 0 .4\n.5 .6 0\n"
    (made,) = task(CORPORATE).module.read(text, "tax1.txt")
    assert made["target"] == 1 and made["tax_codes"].tolist() == [1, 4, 2]
    assert made["foreign_rates"].tolist() == [0.3, 0.2, 0.35] and made["domestic_rates"].tolist() == [0.25, 0.1, 0.3]
    assert made["profits"].tolist() == [100, 0, 50.5] and made["withholding"][0].tolist() == [0, 0.1, 0.2]
    assert task(CORPORATE).play(task(CORPORATE).program("reference"), made) > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "ends where the number of countries"),
        ("1 2\n", "the target 2, which must be within 1 .. 1"),
        ("1 1\n5 .1 .1 9\n0\n", "the tax code 5"),
        ("1 1\n1 .1 .1 -9\n0\n", "country 1 has a negative profit"),
        ("1 1\n1 .1 1.1 9\n0\n", "an income tax rate that is no fraction"),
        ("1 1\n1 .1 .1 9\n30\n", "a withholding rate that is no fraction"),
        ("1 1\n1 .1 x 9\n0\n", "line 2: an income tax rate must be a number"),
        ("1 1\n1 .1 .1 9\n0 0\n", "line 3: '0' is more"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(CORPORATE).module.read(text, "tax1.txt")


def test_generated_targets_exempt_foreign_income_and_other_countries_have_all_codes(task: GetTask) -> None:
    drawn = [task(CORPORATE).instance(seed, size="small") for seed in range(8)]
    assert all(made["tax_codes"][made["target"]] == 1 for made in drawn)
    assert {int(code) for made in drawn for code in made["tax_codes"]} == {1, 2, 3, 4}
