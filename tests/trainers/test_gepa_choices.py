"""Pareto selection and merge of GEPA, against examples worked by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.trainers.candidates import Candidate
from trace_bench.trainers.gepa_merge import Member, Merges, merged, subsample
from trace_bench.trainers.gepa_pareto import undominated, winners, wins
from trace_bench.trainers.population import state_key

ROWS = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 3), min_size=width, max_size=width), min_size=1, max_size=6)
)


def front(*rows: tuple[float, ...]) -> dict[int, int]:
    return wins(rows, [sum(row) / len(row) for row in rows])


def test_all_who_share_the_best_score_of_an_example_win_it() -> None:
    assert winners([(1, 0, 2), (1, 3, 0), (0, 3, 0)]) == [{0, 1}, {1, 2}, {0}]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([(0, 0)], {0: 2}, id="alone"),
        pytest.param([(0, 0), (1, 1)], {1: 2}, id="wins nothing"),
        pytest.param([(1, 0), (0, 1)], {0: 1, 1: 1}, id="one each"),
        pytest.param([(1, 0), (1, 1)], {1: 2}, id="shares its only win with one that wins more"),
        pytest.param([(1, 1), (1, 1)], {1: 2}, id="equal: the newest stays"),
        # The first shares the first example with the second, and the second example with the third: no single one
        # covers it, both together do.
        pytest.param([(1, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)], {1: 2, 2: 2}, id="covered by two together"),
        # Two share the one example that they win, so each covers the other: the weaker one goes, old or new.
        pytest.param([(2, 1, 0), (2, 0, 0), (0, 9, 2)], {0: 1, 2: 2}, id="weakest first: the newer"),
        pytest.param([(2, 0, 0), (2, 1, 0), (0, 9, 2)], {1: 1, 2: 2}, id="weakest first: the older"),
        # All three are covered at first; once the weakest has gone, nobody else is.
        pytest.param([(1, 1, 0), (0, 1, 1), (1, 0, 1)], {1: 2, 2: 2}, id="one goes, then none is covered"),
        pytest.param([(3, 0, 0, 0), (0, 1, 1, 1), (0, 1, 0, 0)], {0: 1, 1: 3}, id="weights are examples won"),
    ],
)
def test_the_front_and_its_weights(rows: list[tuple[float, ...]], expected: dict[int, int]) -> None:
    assert front(*rows) == expected


@given(ROWS)
def test_the_front_covers_every_example_and_holds_nobody_that_it_could_do_without(rows: list[list[int]]) -> None:
    won = winners(rows)
    left = undominated(won, [sum(row) / len(row) for row in rows])
    assert all(best & left for best in won)
    for member in left:
        assert any(best & left == {member} for best in won)


@given(ROWS)
def test_a_candidate_of_best_mean_that_is_the_newest_of_them_is_in_the_front(rows: list[list[int]]) -> None:
    """It is looked at last, so it goes only if others cover it without being covered themselves."""
    means = [sum(row) / len(row) for row in rows]
    best = max(range(len(rows)), key=lambda k: (means[k], k))
    unshared = any(column[best] > max((s for k, s in enumerate(column) if k != best), default=-1)
                   for column in zip(*rows, strict=True))  # fmt: skip
    assert not unshared or best in wins(rows, means)


@pytest.mark.parametrize(
    ("better", "other", "expected"),
    [
        pytest.param("0", "0", "0", id="neither changed it"),
        pytest.param("1", "0", "1", id="the better side changed it"),
        pytest.param("0", "2", "2", id="the other side changed it"),
        pytest.param("1", "2", "1", id="both changed it"),
        pytest.param("1", "1", "1", id="both changed it alike"),
    ],
)
def test_each_parameter_comes_from_the_side_that_changed_it(better: str, other: str, expected: str) -> None:
    assert merged({"p": "0"}, {"p": better}, {"p": other}) == {"p": expected}


class Family:
    """Members by name; the order of creation is that of `add`."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}

    def add(self, name: str, p: Any, q: Any, mean: float, *parents: str) -> Member:
        candidate = Candidate(name, {"p": p, "q": q}, parents, len(self.members))
        self.members[name] = Member(candidate, (mean,), mean, tuple(self.members[parent] for parent in parents))
        return self.members[name]

    def merges(self, seed: int = 1) -> Merges:
        return Merges(random.Random(seed), {state_key(m.state): m.candidate for m in self.members.values()})

    def possible(self, merges: Merges | None = None) -> list[tuple[str, str, str, dict[str, Any]]]:
        return [
            (m.ancestor.candidate.id, m.older.candidate.id, m.newer.candidate.id, dict(m.state))
            for m in (merges or self.merges()).possible(list(self.members.values()))
        ]


def test_two_children_that_changed_one_parameter_each_are_merged() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("left", 1, 0, 1.0, "seed")
    family.add("right", 0, 2, 1.0, "seed")
    assert family.possible() == [("seed", "left", "right", {"p": 1, "q": 2})]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(1.0, 2.0, [{"p": 2, "q": 1}], id="the right one is better"),
        pytest.param(1.0, 1.0, [{"p": 2, "q": 1}], id="of equal ones the newer counts"),
        pytest.param(2.0, 1.0, [], id="with the left one's p it is the left one, which is known"),
    ],
)
def test_where_both_changed_a_parameter_the_better_side_counts(left: float, right: float, expected: Any) -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("left", 1, 1, left, "seed")
    family.add("right", 2, 0, right, "seed")
    assert [state for *_, state in family.possible()] == expected


def test_a_candidate_is_not_merged_with_its_ancestors() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("child", 1, 0, 1.0, "seed")
    family.add("grandchild", 1, 2, 2.0, "child")
    assert family.possible() == []


@pytest.mark.parametrize(("mean", "found"), [(1.0, 1), (1.5, 0)])
def test_an_ancestor_that_is_better_than_one_of_the_two_is_no_ground_for_a_merge(mean: float, found: int) -> None:
    family = Family()
    family.add("seed", 0, 0, mean)
    family.add("left", 1, 0, 1.0, "seed")
    family.add("right", 0, 2, 2.0, "seed")
    assert len(family.possible()) == found


def test_the_newest_common_ancestor_comes_first_and_each_triplet_once() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("middle", 5, 0, 1.0, "seed")
    family.add("left", 6, 0, 2.0, "middle")
    family.add("right", 5, 2, 1.5, "middle")
    merges = family.merges()
    assert family.possible(merges) == [("middle", "left", "right", {"p": 6, "q": 2})]
    taken = merges.take(list(family.members.values()))
    assert taken is not None and taken.better.candidate.id == "left"
    # Over the seed the same state would come of it, and each result is tried once.
    assert family.possible(merges) == []
    assert merges.take(list(family.members.values())) is None


def test_another_ancestor_with_another_result_is_another_merge() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("middle", 5, 5, 1.0, "seed")
    family.add("left", 6, 0, 2.0, "middle")
    family.add("right", 5, 2, 1.5, "middle")
    merges = family.merges()
    found = []
    while (taken := merges.take(list(family.members.values()))) is not None:
        found.append((taken.ancestor.candidate.id, dict(taken.state)))
    # Over the middle both changed q (the better left's 0 counts), and p is the left's: that is the left itself. Over
    # the seed p was changed by both (6), q by the right alone (2).
    assert found == [("seed", {"p": 6, "q": 2})]


def test_every_pair_that_can_be_merged_is_found_and_the_seed_of_the_job_picks() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    for i in (1, 2, 3):
        family.add(f"p{i}", i, 0, 1.0, "seed")
        family.add(f"q{i}", 0, i, 1.0, "seed")
    assert sorted(tuple(state.values()) for *_, state in family.possible()) == [
        (p, q) for p in (1, 2, 3) for q in (1, 2, 3)
    ]
    orders = set()
    for seed in range(5):
        merges, order = family.merges(seed), []
        while (taken := merges.take(list(family.members.values()))) is not None:
            order.append(tuple(taken.state.values()))
        assert len(order) == len(set(order)) == 9
        orders.add(tuple(order))
    assert len(orders) > 1


def test_a_merged_candidate_has_the_ancestors_of_both_sides() -> None:
    family = Family()
    for name, parents in (("seed", ()), ("left", ("seed",)), ("right", ("seed",)), ("both", ("left", "right"))):
        family.add(name, 0, 0, 0.0, *parents)
    assert {m.candidate.id for m in family.members["both"].ancestors()} == {"seed", "left", "right"}


def test_where_no_side_alone_changed_anything_there_is_nothing_to_put_together() -> None:
    family = Family()
    family.add("seed", 0, 0, 0.0)
    family.add("left", 1, 1, 1.0, "seed")
    family.add("right", 2, 2, 1.0, "seed")
    assert family.possible() == []


def test_1_and_1_point_0_are_different_values() -> None:
    (value,) = merged({"p": 1}, {"p": 1}, {"p": 1.0}).values()
    assert type(value) is float


def test_a_subsample_is_balanced_between_who_is_better() -> None:
    older, newer = [1] * 10 + [0] * 10 + [5] * 10, [0] * 10 + [1] * 10 + [5] * 10
    chosen = subsample(older, newer, 5, random.Random(1))
    assert chosen == sorted(set(chosen))
    assert [sum(low <= i < low + 10 for i in chosen) for low in (0, 10, 20)] == [2, 2, 1]
    assert len({tuple(subsample(older, newer, 5, random.Random(seed))) for seed in range(9)}) > 1
    assert subsample([1, 1, 1, 0], [0, 0, 0, 0], 3, random.Random(1)) != [0, 1, 2]  # an equal one is among them
    assert subsample([1, 2], [2, 1], 5, random.Random(1)) == [0, 1]
