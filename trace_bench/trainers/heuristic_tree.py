"""The tree of MCTS-AHD: which node is expanded, where the tree grows wider, and how values go up.

Zheng, Xie, Wang, Hooi, Monte Carlo Tree Search for Comprehensive Exploration in LLM-Based Automatic Heuristic Design,
ICML 2025, arXiv:2501.08603. Standard library only: no model is asked and nothing is evaluated here.

Scores and values are oriented: higher is better.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

FEWEST_PARENTS, MOST_PARENTS = 2, 5
"""Programs that the action e1 is shown, if there are so many branches."""


@dataclass(eq=False)
class Node:
    """A program in the tree, or the root, which has none.

    Attributes:
        id: of the candidate in the search; empty for the root.
        description: what the program does, in words of the model.
        depth: 0 for the root.
        visits: N, 1 for a new program, and 1 more for each node that was added below it.
        value: Q, the score of a node without children, else the highest value of its children.
    """

    id: str
    source: str
    description: str
    score: float
    parent: Node | None
    depth: int = 0
    visits: int = 0
    value: float = 0.0
    children: list[Node] = field(default_factory=list)

    def subtree(self) -> Iterator[Node]:
        """The node itself and all below it, each before its children."""
        left = [self]
        while left:
            yield (node := left.pop())
            left += reversed(node.children)

    def lineage(self) -> list[Node]:
        """The programs from this one up to the child of the root."""
        path, node = [], self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path


class Tree:
    """The root, which stands for no program, and all programs below it.

    Args:
        alpha: exponent of progressive widening.
        elite_size: programs in the elite set.

    Attributes:
        elite: the best programs of all, best first, no two with one score (the older stays).
    """

    def __init__(self, alpha: float, elite_size: int) -> None:
        self._alpha = alpha
        self._elite_size = elite_size
        self._lowest, self._highest = math.inf, -math.inf
        self.root = Node("", "", "", 0.0, None)
        self.elite: list[Node] = []

    def add(self, parent: Node, name: str, source: str, description: str, score: float) -> Node:
        """Add a program below `parent`, and back its value up: N of all above it grows by one, and their Q becomes
        the highest Q of their children."""
        node = Node(name, source, description, score, parent, parent.depth + 1, 1, score)
        parent.children.append(node)
        self._lowest, self._highest = min(self._lowest, score), max(self._highest, score)
        above: Node | None = parent
        while above is not None:
            above.visits += 1
            above.value = max(child.value for child in above.children)
            above = above.parent
        if all(score != other.score for other in self.elite):
            self.elite = sorted([*self.elite, node], key=lambda one: one.score, reverse=True)[: self._elite_size]
        return node

    def uct(self, node: Node, weight: float) -> float:
        """``(Q - Qmin) / (Qmax - Qmin) + weight * sqrt(ln(N(parent) + 1) / N)``.

        Qmin and Qmax are the lowest and the highest score in the tree; where they are equal, the first term is 0.
        """
        assert node.parent is not None, "the root is not chosen"
        # Halves, since a difference of two scores may be no float.
        span = self._highest / 2 - self._lowest / 2
        share = (node.value / 2 - self._lowest / 2) / span if span > 0 else 0.0
        return share + weight * math.sqrt(math.log(node.parent.visits + 1) / node.visits)

    def choose(self, node: Node, weight: float) -> Node:
        """The child of `node` with the highest `uct`, of equal ones the oldest."""
        return max(node.children, key=lambda child: self.uct(child, weight))

    def widens(self, node: Node) -> bool:
        """Whether a node that has children gets another one by progressive widening: ``floor(N^alpha) >= children``."""
        return math.floor(math.pow(node.visits, self._alpha)) >= len(node.children)

    def branches(self, chance: random.Random) -> list[Node]:
        """The parents of action e1: one program, drawn evenly, from each of 2 to 5 branches of the root.

        The number is drawn evenly, then the branches without replacement. Where there are fewer branches, all of them.
        """
        most = min(MOST_PARENTS, len(self.root.children))
        number = most if most <= FEWEST_PARENTS else chance.randint(FEWEST_PARENTS, most)
        chosen = sorted(chance.sample(range(len(self.root.children)), number))
        return [chance.choice(list(self.root.children[index].subtree())) for index in chosen]

    def reference(self, node: Node, chance: random.Random) -> Node | None:
        """The other parent of action e2: an elite program other than that of `node`; None if there is none.

        The r-th best of n, from r = 0, is drawn with a weight of ``1 / (r + 1 + n)``.
        """
        others = [one for one in self.elite if one is not node]
        return chance.choices(others, rank_weights(len(others)))[0] if others else None


def rank_weights(count: int) -> list[float]:
    """``1 / (r + 1 + count)`` for each rank r from 0."""
    return [1 / (rank + 1 + count) for rank in range(count)]


def exploration_weight(initial: float, sampled: int, total: int) -> float:
    """Exploration weight after `sampled` of `total` programs: ``initial * (1 - sampled / total)``, and no less than 0.

    A `total` of 0 means that none is known: then the weight does not decay.
    """
    return initial * max(0.0, 1 - sampled / total) if total else initial


def distinct(nodes: Sequence[Node]) -> list[Node]:
    """The parents of action s1: `nodes` without those whose source is that of an earlier one, worst first."""
    first = {node.source: node for node in reversed(nodes)}
    return sorted(first.values(), key=lambda node: node.score)
