"""The programs database of FunSearch, by examples worked by hand."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from trace_bench.trainers.funsearch_islands import Cluster, Database, Island, Scored, softmax, temperature_at


def program(name: str, *scores: float, length: int = 10) -> Scored:
    return Scored(name, name.ljust(length, "#"), scores)


def database(*, islands: int = 4, reset_period: int = 0, seed: int = 1) -> Database:
    return Database(program("initial", 0.0), islands, 0.1, 30_000, reset_period, random.Random(seed))


def test_softmax_with_a_temperature() -> None:
    # exp(0) : exp(ln 3 / 1) = 1 : 3; with half the temperature 1 : 9.
    assert softmax([0.0, math.log(3)], 1.0) == pytest.approx([0.25, 0.75])
    assert softmax([0.0, math.log(3)], 0.5) == pytest.approx([0.1, 0.9])
    assert softmax([-1e300, 1e300], 0.1) == [0.0, 1.0]
    assert softmax([7.0, 7.0, 7.0], 0.001) == pytest.approx([1 / 3] * 3)


def test_the_temperature_falls_within_a_period_and_starts_again() -> None:
    assert [temperature_at(n, 0.1, 4) for n in range(6)] == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.1, 0.075])
    assert temperature_at(15_000, 0.1, 30_000) == pytest.approx(0.05)
    assert temperature_at(29_999, 0.1, 30_000) > 0


def test_a_short_program_of_a_cluster_is_more_probable() -> None:
    cluster = Cluster(1.0, [program("a", 1.0, length=100), program("b", 1.0, length=50), program("c", 1.0, length=75)])
    # Logits: -(100 - 50) / 100 = -0.5, 0, -0.25.
    weights = [math.exp(-0.5), 1.0, math.exp(-0.25)]
    assert cluster.probabilities() == pytest.approx([w / sum(weights) for w in weights], abs=1e-6)
    assert Cluster(1.0, [program("a", 1.0)]).probabilities() == [1.0]
    assert Cluster(1.0, [Scored("a", "", (1.0,)), Scored("b", "", (1.0,))]).probabilities() == [0.5, 0.5]


def test_programs_with_the_same_scores_on_all_examples_are_one_cluster() -> None:
    island = Island(0.1, 30_000)
    for one in (program("a", 1.0, 3.0), program("b", 3.0, 1.0), program("c", 1.0, 3.0)):
        island.add(one)
    # b has the mean of the others, and yet another signature.
    assert {key: [p.id for p in cluster.programs] for key, cluster in island.clusters.items()} == {
        (1.0, 3.0): ["a", "c"],
        (3.0, 1.0): ["b"],
    }
    assert island.count == 3 and island.best is not None and island.best.id == "a"


def test_clusters_are_chosen_by_score_at_the_temperature_of_the_island() -> None:
    island = Island(0.1, 4)
    for one in (program("a", 0.0), program("b", 0.05)):
        island.add(one)
    # Two programs of a period of four: T = 0.05, so the logits are 0 and 1.
    assert island.probabilities() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    island.add(program("c", 0.0))  # into the cluster of a: T = 0.025, logits 0 and 2
    assert island.probabilities() == pytest.approx([1 / (1 + math.e**2), math.e**2 / (1 + math.e**2)])


def test_a_prompt_shows_as_many_programs_as_there_are_clusters_at_most_and_the_best_last() -> None:
    island, chance = Island(10.0, 30_000), random.Random(1)
    island.add(program("a", 5.0))
    island.add(program("b", 5.0))
    assert len(island.draw(2, chance)) == 1
    island.add(program("c", 4.0))
    drawn = [island.draw(2, chance) for _ in range(200)]
    assert {len(pair) for pair in drawn} == {2}
    assert all(worse.score <= better.score for worse, better in drawn)
    # Clusters are drawn with replacement: c may stand there twice.
    assert {(first.score, second.score) for first, second in drawn} == {(4.0, 4.0), (4.0, 5.0), (5.0, 5.0)}


def test_draws_follow_the_probabilities() -> None:
    island, chance = Island(0.1, 30_000), random.Random(1)
    island.add(program("a", 0.0))
    island.add(program("b", 0.1))
    count = Counter(one.id for _ in range(4000) for one in island.draw(1, chance))
    expected = island.probabilities()[1]
    assert count["b"] / sum(count.values()) == pytest.approx(expected, abs=0.03)


def best_of(islands: Sequence[Island]) -> list[str]:
    return [island.best.id if island.best else "" for island in islands]


def test_every_island_begins_with_the_initial_program() -> None:
    assert [i.count for i in database(islands=10).islands] == [1] * 10
    assert best_of(database(islands=3).islands) == ["initial"] * 3


def test_a_reset_discards_the_worse_half_and_seeds_it_from_the_survivors() -> None:
    founders = set()
    for seed in range(20):
        db = database(seed=seed)
        for index, (name, score) in enumerate([("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 4.0)]):
            db.islands[index].add(program(name, score))
        reset = db.reset()
        assert set(reset) == {1, 2}
        assert {p.id for p in reset.values()} <= {"a", "d"}
        assert [i.count for i in db.islands] == [2, 1, 1, 2]
        assert best_of(db.islands)[0] == "a" and best_of(db.islands)[3] == "d"
        assert best_of(db.islands)[1:3] == [reset[1].id, reset[2].id]
        founders.add((reset[1].id, reset[2].id))
    assert founders == {("a", "a"), ("a", "d"), ("d", "a"), ("d", "d")}  # drawn for each island


def test_of_an_odd_number_the_smaller_part_is_reset_and_one_island_is_never() -> None:
    assert len(database(islands=5).reset()) == 2
    assert database(islands=1).reset() == {}


def test_chance_decides_which_of_equal_islands_are_reset() -> None:
    assert len({tuple(sorted(database(seed=seed).reset())) for seed in range(20)}) > 3


def test_the_founder_is_the_oldest_of_the_best_programs() -> None:
    db = database(islands=2)
    for name in ("a", "b"):
        db.islands[0].add(program(name, 5.0))
    assert {index: p.id for index, p in db.reset().items()} == {1: "a"}


def test_islands_are_reset_once_a_period() -> None:
    db = database(islands=4, reset_period=3)
    assert [len(db.sampled(1)) for _ in range(7)] == [0, 0, 2, 0, 0, 2, 0]
    db = database(islands=4, reset_period=6)  # 4, 8, 12, 16, 20 samples
    assert [len(db.sampled(4)) for _ in range(5)] == [0, 2, 2, 0, 2]
    assert [len(database().sampled(4)) for _ in range(7)] == [0] * 7


def test_all_islands_are_drawn_and_the_same_seed_draws_the_same() -> None:
    drawn = [[database(seed=7).draw(2)[0] for _ in range(1)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    db = database(islands=10, seed=1)
    counts = Counter(db.draw(2)[0] for _ in range(2000))
    assert set(counts) == set(range(10)) and min(counts.values()) > 140


def test_an_island_knows_its_sources() -> None:
    island = Island(0.1, 30_000)
    island.add(program("a", 1.0))
    assert "a#########" in island and "b" not in island
