"""Corporate structuring: follows profits up a tree of ownership through all taxes; more at the top is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers

EXEMPTION, DEDUCTION, BY_SOURCE, WORLD_WIDE = 1, 2, 3, 4
OUTSIDE = -1
MOST_COUNTRIES = 2000


def instance(rng: np.random.Generator, *, n_countries: int) -> dict[str, Any]:
    """Random rates; one in twenty pairs has a treaty, under which nothing is withheld. Foreign income is exempt at the
    target: with credits there, any structure that passes its income on well enough is optimal."""
    n = int(rng.integers(max(3, (n_countries + 1) // 2), n_countries + 1))
    withholding = np.round(rng.uniform(0.02, 0.3, size=(n, n)), 3)
    withholding[rng.random((n, n)) < 0.05] = 0.0
    np.fill_diagonal(withholding, 0.0)
    sources = rng.permutation(n) < max(2, round(0.5 * n))
    target, tax_codes = int(rng.integers(n)), rng.choice(4, size=n, p=[0.25, 0.15, 0.3, 0.3]) + 1
    tax_codes[target] = EXEMPTION
    return {
        "target": target,
        "tax_codes": tax_codes,
        "foreign_rates": np.round(rng.uniform(0.2, 0.5, size=n), 3),
        "domestic_rates": np.round(rng.uniform(0.05, 0.35, size=n), 3),
        "profits": rng.integers(100, 1001, size=n) * sources.astype(np.float64),
        "withholding": withholding,
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's tax files: n and the target (from 1); for each country its code, foreign and domestic rate and
    profit; then n rows of n withholding rates, from the row's country to the column's."""
    numbers = Numbers(text)
    n, target = numbers.count("the number of countries", most=MOST_COUNTRIES), numbers.integer("the target")
    if not 1 <= target <= n:
        raise DataError(f"has the target {target}, which must be within 1 .. {n}")
    codes, rates, profits = [], [], []
    for country in range(1, n + 1):
        codes.append(numbers.integer("a tax code"))
        rates.append(numbers.reals(2, "an income tax rate"))
        profits.append(numbers.real("a profit"))
        if codes[-1] not in (EXEMPTION, DEDUCTION, BY_SOURCE, WORLD_WIDE):
            raise DataError(f"country {country} has the tax code {codes[-1]}, which must be within 1 .. 4")
        if profits[-1] < 0:
            raise DataError(f"country {country} has a negative profit")
    withholding = np.array([numbers.reals(n, "a withholding rate") for _ in range(n)]).reshape(n, n)
    numbers.end()
    for what, found in (("an income tax rate", np.array(rates)), ("a withholding rate", withholding)):
        if (found < 0).any() or (found > 1).any():
            raise DataError(f"has {what} that is no fraction, 0 .. 1")
    made = {"target": target - 1, "tax_codes": np.array(codes), "profits": np.array(profits)}
    foreign, domestic = np.array(rates).T
    return [made | {"foreign_rates": foreign, "domestic_rates": domestic, "withholding": withholding}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    names = ("tax_codes", "foreign_rates", "domestic_rates", "profits", "withholding")
    n = len(instance["profits"])
    owners = program(n, instance["target"], *(instance[name] for name in names))
    return checks.integers(owners, "the owners", length=n, low=OUTSIDE, high=n - 1)


def violations(instance: dict[str, Any], owners: list[int]) -> Iterator[str]:
    """What makes it no tree below the target with all sources in it."""
    target = instance["target"]
    if owners[target] != OUTSIDE:
        yield f"country {target} is the target and must have the owner -1, not {owners[target]}"
    for country, (owner, profit) in enumerate(zip(owners, instance["profits"].tolist(), strict=True)):
        if country == target:
            continue
        if owner == OUTSIDE:
            if profit > 0:
                yield f"country {country} has a profit of {profit:g} and is not in the structure"
        elif owner != target and owners[owner] == OUTSIDE:
            yield f"country {country} is owned by country {owner}, which is not in the structure"
    for circle in _circles(owners, target):
        yield "the countries " + ", ".join(map(str, circle)) + " own each other in a circle"


def score(instance: dict[str, Any], owners: list[int]) -> float:
    """What is left at the target."""
    return sent(instance, owners)[instance["target"]]


def worst(instance: dict[str, Any]) -> float:
    """All is taxed away."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """Each profit by itself on the way that keeps the largest share of it, without the taxes that only credit systems
    have; of what comes to a target with credits, no more than its own rate leaves of the profits."""
    target, earned, kept = instance["target"], instance["profits"], _shares(instance)
    net = earned * (1 - instance["domestic_rates"])
    others = np.arange(len(earned)) != target
    arriving = float((net * kept)[others].sum())
    if instance["tax_codes"][target] in (BY_SOURCE, WORLD_WIDE):
        arriving = min(arriving, float((1 - instance["foreign_rates"][target]) * earned[others].sum()))
    return (float(net[target]) + arriving) * (1 + 1e-12)


def remark(instance: dict[str, Any], owners: list[int]) -> str:
    kept, profits = sent(instance, owners), instance["profits"]
    held = instance["withholding"]
    withheld = sum(kept[i] * float(held[i, j]) for i, j in enumerate(owners) if j != OUTSIDE)
    domestic = float((profits * instance["domestic_rates"]).sum())
    foreign = max(0.0, float(profits.sum()) - domestic - withheld - kept[instance["target"]])
    between = sum(1 for i, j in enumerate(owners) if j != OUTSIDE and profits[i] == 0)
    return (
        f"Of profits of {profits.sum():g}, domestic taxes take {domestic:.1f} whatever the structure is, withholding "
        f"{withheld:.1f}, taxes on foreign income {foreign:.1f}; {sum(j != OUTSIDE for j in owners)} "
        f"countries are owned by others, {between} of them without a profit of their own."
    )


def sent(instance: dict[str, Any], owners: list[int]) -> list[float]:
    """What each country has after its own taxes: it goes to its owner, less what is withheld on the way."""
    n = len(owners)
    foreign, codes = instance["foreign_rates"].tolist(), instance["tax_codes"].tolist()
    gross = instance["profits"].tolist()
    kept = [p * (1 - d) for p, d in zip(gross, instance["domestic_rates"].tolist(), strict=True)]
    received, earned, by_source = [0.0] * n, [0.0] * n, [0.0] * n
    for country in _owned_first(owners):
        f, got = foreign[country], received[country]
        tax = {
            EXEMPTION: 0.0,
            DEDUCTION: f * got,
            BY_SOURCE: by_source[country],
            WORLD_WIDE: max(0.0, got - (1 - f) * earned[country]),
        }[codes[country]]
        kept[country] += got - tax
        owner = owners[country]
        if owner != OUTSIDE:
            paid, below = kept[country] * (1 - float(instance["withholding"][country, owner])), gross[country]
            below += earned[country]
            received[owner] += paid
            earned[owner] += below
            by_source[owner] += max(0.0, paid - (1 - foreign[owner]) * below)
    return kept


def _owned_first(owners: list[int]) -> list[int]:
    """The countries, each before its owner."""
    owned = [0] * len(owners)
    for owner in owners:
        if owner != OUTSIDE:
            owned[owner] += 1
    order = [country for country, count in enumerate(owned) if count == 0]
    for country in order:
        owner = owners[country]
        if owner != OUTSIDE:
            owned[owner] -= 1
            if owned[owner] == 0:
                order.append(owner)
    return order


def _circles(owners: list[int], target: int) -> Iterator[list[int]]:
    """Each circle of ownership, from its least member on."""
    seen = [False] * len(owners)
    seen[target] = True
    for start in range(len(owners)):
        path, country = [], start
        while country != OUTSIDE and not seen[country]:
            seen[country] = True
            path.append(country)
            country = owners[country]
        if country in path:
            circle = path[path.index(country) :]
            least = circle.index(min(circle))
            yield circle[least:] + circle[:least]


def _shares(instance: dict[str, Any]) -> Any:
    """The largest share of what a country has that can come to the target: the best product along a way to it."""
    deducted = np.where(instance["tax_codes"] == DEDUCTION, 1 - instance["foreign_rates"], 1.0)
    step = (1 - instance["withholding"]) * deducted[None, :]
    share, left = np.zeros(len(deducted)), np.ones(len(deducted), dtype=bool)
    share[instance["target"]] = 1.0
    while left.any():
        country = int(np.where(left, share, -1.0).argmax())
        left[country] = False
        share = np.maximum(share, np.where(left, step[:, country] * share[country], 0.0))
    return share
