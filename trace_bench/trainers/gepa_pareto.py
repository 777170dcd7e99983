"""Pareto selection over the examples of a set, as in GEPA (Agrawal et al., arXiv:2507.19457, algorithm 2).

Candidates are rows: ``scores[k][i]`` is the score of candidate `k` on example `i`; higher is better. Rows are in the
order of creation.
"""

from __future__ import annotations

from collections.abc import Sequence


def winners(scores: Sequence[Sequence[float]]) -> list[set[int]]:
    """For each example the candidates that no other one beats there: all who share the best score."""
    won = []
    for column in zip(*scores, strict=True):
        best = max(column)
        won.append({k for k, score in enumerate(column) if score == best})
    return won


def undominated(won: Sequence[set[int]], means: Sequence[float]) -> set[int]:
    """The winners without those that the others cover: on each example they win, one that is left wins, too.

    The weakest by `means` is looked at first; of equally weak ones the oldest, so that the newest stays.
    """
    left = set().union(*won)
    for k in sorted(left, key=lambda k: (means[k], k)):
        # One pass is enough: the fewer are left, the less is covered.
        if all(k not in best or len(best & left) > 1 for best in won):
            left.remove(k)
    return left


def wins(scores: Sequence[Sequence[float]], means: Sequence[float]) -> dict[int, int]:
    """On how many examples each undominated candidate is among the best; in the order of creation."""
    won = winners(scores)
    return {k: sum(k in best for best in won) for k in sorted(undominated(won, means))}
