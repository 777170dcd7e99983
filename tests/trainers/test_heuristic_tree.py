"""The tree of MCTS-AHD, by examples worked by hand."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from trace_bench.trainers.heuristic_tree import Node, Tree, distinct, exploration_weight, rank_weights


def grow(tree: Tree, parent: Node, name: str, score: float, source: str = "") -> Node:
    return tree.add(parent, name, source or name, f"what {name} does", score)


def example() -> tuple[Tree, dict[str, Node]]:
    """Root with a (2), b (4); below a: c (1), d (7); below d: e (3)."""
    tree = Tree(alpha=0.5, elite_size=3)
    nodes = {"root": tree.root}
    for name, parent, score in [("a", "root", 2), ("b", "root", 4), ("c", "a", 1), ("d", "a", 7), ("e", "d", 3)]:
        nodes[name] = grow(tree, nodes[parent], name, float(score))
    return tree, nodes


def test_values_go_up_as_the_highest_of_the_children_and_visits_count_what_was_added() -> None:
    tree, nodes = example()
    assert {name: node.visits for name, node in nodes.items()} == {"root": 5, "a": 4, "b": 1, "c": 1, "d": 2, "e": 1}
    # d had 7 until its only child had 3: its own score counts no more.
    assert {n: node.value for n, node in nodes.items()} == {"root": 4, "a": 3, "b": 4, "c": 1, "d": 3, "e": 3}
    assert {n: node.depth for n, node in nodes.items()} == {"root": 0, "a": 1, "b": 1, "c": 2, "d": 2, "e": 3}
    assert nodes["d"].score == 7 and tree.elite[0] is nodes["d"]


def test_uct_is_the_value_within_the_range_of_scores_and_a_bonus_for_few_visits() -> None:
    tree, nodes = example()  # scores from 1 to 7
    assert tree.uct(nodes["a"], 0.1) == pytest.approx((3 - 1) / 6 + 0.1 * math.sqrt(math.log(6) / 4))
    assert tree.uct(nodes["b"], 0.1) == pytest.approx((4 - 1) / 6 + 0.1 * math.sqrt(math.log(6) / 1))
    assert tree.uct(nodes["e"], 0.0) == pytest.approx((3 - 1) / 6)
    assert tree.choose(tree.root, 0.1) is nodes["b"]
    assert tree.choose(nodes["a"], 0.0) is nodes["d"]
    # c: 0 + w sqrt(ln 5 / 1); d: 1/3 + w sqrt(ln 5 / 2): a large weight prefers what was visited less.
    assert tree.choose(nodes["a"], 10.0) is nodes["c"]


def test_equal_or_huge_scores_do_no_harm() -> None:
    tree = Tree(0.5, 10)
    one, two = grow(tree, tree.root, "one", -1.7e308), grow(tree, tree.root, "two", -1.7e308)
    assert tree.uct(one, 0.0) == tree.uct(two, 0.0) == 0.0 and tree.choose(tree.root, 0.1) is one
    grow(tree, tree.root, "three", 1.7e308)
    assert tree.uct(tree.root.children[2], 0.0) == 1.0 and tree.uct(one, 0.0) == 0.0


@pytest.mark.parametrize(("visits", "children", "widens"), [
    (1, 1, True), (3, 1, True), (3, 2, False), (4, 2, True), (7, 6, False), (35, 6, False), (36, 6, True),
])  # fmt: skip
def test_a_node_widens_while_the_root_of_its_visits_is_no_less_than_its_children(
    visits: int, children: int, widens: bool
) -> None:
    tree = Tree(0.5, 10)
    node = Node("n", "", "", 0.0, tree.root, 1, visits)
    node.children = [Node(str(i), "", "", 0.0, node) for i in range(children)]
    assert tree.widens(node) is widens


def test_the_exponent_says_how_fast_a_node_widens() -> None:
    slow, fast = Tree(0.0, 1), Tree(1.0, 1)
    node = Node("n", "", "", 0.0, None, 1, 5, children=[Node("c", "", "", 0.0, None)] * 4)
    assert fast.widens(node) and not slow.widens(node)


def test_the_elite_set_holds_the_best_of_different_scores_and_of_equal_ones_the_oldest() -> None:
    tree = Tree(0.5, 3)
    for name, score in [("a", 1.0), ("b", 5.0), ("c", 5.0), ("d", 3.0), ("e", 0.0), ("f", 4.0)]:
        grow(tree, tree.root, name, score)
    assert [node.id for node in tree.elite] == ["b", "f", "d"]


def test_the_reference_is_another_elite_program_drawn_by_rank() -> None:
    assert rank_weights(3) == [1 / 4, 1 / 5, 1 / 6]
    tree, nodes = example()  # elite: d (7), b (4), e (3)
    chance = random.Random(1)
    drawn = Counter(node.id for _ in range(6000) if (node := tree.reference(nodes["d"], chance)))
    # Of b and e, ranks 0 and 1 of two: 1/3 to 1/4.
    assert set(drawn) == {"b", "e"} and drawn["b"] / 6000 == pytest.approx(4 / 7, abs=0.02)
    alone = Tree(0.5, 10)
    assert alone.reference(grow(alone, alone.root, "a", 1.0), chance) is None


def test_e1_is_shown_a_program_of_each_of_two_to_five_branches() -> None:
    tree, _ = example()
    drawn = [tree.branches(random.Random(seed)) for seed in range(60)]
    assert {len(parents) for parents in drawn} == {2}
    assert {parents[0].id for parents in drawn} == {"a", "c", "d", "e"} and {p[1].id for p in drawn} == {"b"}
    for number in range(6):
        grow(tree, tree.root, f"x{number}", 0.5)
    many = [tree.branches(random.Random(seed)) for seed in range(60)]
    assert {len(parents) for parents in many} == {2, 3, 4, 5}
    assert all(len({node.lineage()[-1].id for node in parents}) == len(parents) for parents in many)
    single = Tree(0.5, 10)
    assert single.branches(random.Random(1)) == []
    only = grow(single, single.root, "only", 1.0)
    assert single.branches(random.Random(1)) == [only]


def test_s1_is_shown_the_different_programs_of_the_path_worst_first() -> None:
    tree, nodes = example()
    assert [node.id for node in nodes["e"].lineage()] == ["e", "d", "a"]
    assert [node.id for node in distinct(nodes["e"].lineage())] == ["a", "e", "d"]
    copy = grow(tree, nodes["e"], "copy", 9.0, source="a")
    assert [node.id for node in distinct(copy.lineage())] == ["e", "d", "copy"]
    assert tree.root.lineage() == []
    assert [node.id for node in tree.root.subtree()] == ["", "a", "c", "d", "e", "copy", "b"]


def test_the_exploration_weight_decays_to_zero_with_the_last_program() -> None:
    weights = [exploration_weight(0.1, sampled, 1000) for sampled in (0, 250, 1000, 1003)]
    assert weights == pytest.approx([0.1, 0.075, 0.0, 0.0])
    assert exploration_weight(0.1, 10**6, 0) == 0.1
