"""The table of ten tasks on the page of published results: what programs here score, and what papers report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAGE = "published-results.md"
BEGIN = "<!-- Ten tasks: written by `python -m benchmarks.LLM4AD.pages --write`. -->\n"
END = "<!-- End of the ten tasks. -->\n"
SAME, ALIKE, OTHER = "same instance", "same distribution", "–"
"""How instances of a paper are to the ones here: equal, drawn alike, or neither."""
REPORTED: Mapping[str, tuple[str, str]] = {
    "circle_packing": (SAME, "AlphaEvolve 2.635"),
    "optimization/admissible_set": (SAME, "FunSearch 3003; MCTS-AHD 2780, EoH 2776, ReEvo 2733 at 1,000 programs"),
    "optimization/online_bin_packing": (
        ALIKE,
        "beyond the bound: best fit 4.87 %, FunSearch's heuristic for 5,000 items 3.78 %, MCTS-AHD 2.45 %, EoH 2.24 %",
    ),
    "optimization/tsp_construct": (ALIKE, "EoH 8.894, FunSearch 8.850, MCTS-AHD 8.684, ReEvo 8.57 (best of three)"),
    "optimization/tsp_gls_2O": (ALIKE, "another local search; with ReEvo's guidance it ends 0.000 % above the optimum"),
    "optimization/knapsack_construct": (OTHER, "values and weights have another distribution"),
    "optimization/cvrp_construct": (OTHER, "the papers on this page report no constructive rules"),
    "optimization/co_bench/flow_shop_scheduling_co_bench": (
        OTHER,
        "Taillard's files: EoH 0.10 to 0.60 % above the upper bound, NEH 2.07 to 5.48 %",
    ),
    "optimization/co_bench/travelling_salesman_problem_co_bench": (
        OTHER,
        "500 cities, here 250 to 500: FunSearch 17.20, greedy refinement 17.37, LEHD with ReEvo 16.78, Gurobi 16.55",
    ),
    "optimization/co_bench/maximal_independent_set_co_bench": (
        OTHER,
        "random graphs of other sizes: greedy refinement 42.35, FunSearch 41.65, Gurobi 41.38 (ER-Small)",
    ),
}
"""Task: how comparable, and the numbers, whose source is the page's section on the method."""


def table(rows: Mapping[str, tuple[str, str, str, str]]) -> str:
    """The Markdown table.

    Args:
        rows: of each task of `REPORTED` template, reference and best known score, and how far template and
            reference are from the bound.
    """
    lines = [
        "| task | template | reference | best known | from the bound | instances | papers |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (kind, said) in REPORTED.items():
        lines.append(f"| [{name.rpartition('/')[2]}](tasks/{name}.md) | {' | '.join(rows[name])} | {kind} | {said} |")
    return "\n".join(lines) + "\n"


def from_bound(programs: Mapping[str, Any], bound: float | None) -> str:
    """``5.5 → 2.5 %``: how far template and reference are from the bound, relative to it."""
    if not bound:
        return "–"
    shares = [abs(100 * (programs[role]["score"] - bound) / bound) for role in ("template", "reference")]
    return f"{shares[0]:.2f} → {shares[1]:.2f} %"


def with_table(page: str, text: str) -> str:
    """`page` with `text` between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
