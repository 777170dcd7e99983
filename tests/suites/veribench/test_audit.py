"""The rules of the audit, on declarations that no honest Lean puts together."""

from __future__ import annotations

from typing import Any

import pytest

from trace_bench.suites.veribench.audit import FORBIDDEN, judged
from trace_bench.suites.veribench.olean import Constant, Module


def constant(kind: Any = "theorem", uses: tuple[str, ...] = ("f",), **over: Any) -> Constant:
    fields: dict[str, Any] = {"type": 1, "value": 2, "mentions": frozenset({"f", "Eq"}), "safe": True, **over}
    return Constant(kind=kind, uses=frozenset(uses), **fields)


def module(entries: dict[str, int] | None = None, **constants: Constant) -> Module:
    return Module(
        "4.28.0", {"f": constant("definition", ("Nat",), mentions=frozenset({"Nat"})), **constants}, entries or {}
    )


CHALLENGE = module(
    t=constant(uses=("f", "sorryAx")), f=constant("definition", ("sorryAx",), mentions=frozenset({"Nat"}))
)


def test_an_honest_proof_counts_and_standard_axioms_may_be_used() -> None:
    found = judged(module(t=constant(uses=("f", "helper")), helper=constant(uses=("propext",))), CHALLENGE, (), ("t",))
    assert found.theorems == {"t"} and found.axioms_ok and not found.violations


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({}, "t is missing"),
        ({"t": constant("definition")}, "t is declared as definition, and has to be a theorem"),
        ({"t": constant(type=9)}, "t has another type than in the template"),
        ({"t": constant(), "f": constant("opaque")}, "f is declared as opaque, and has to be a definition"),
        ({"t": constant(), "f": constant("definition", safe=False)}, "f is unsafe"),
        ({"t": constant(uses=("helper",)), "helper": constant(uses=("sorryAx",))}, "it rests on sorry"),
        ({"t": constant(uses=("Lean.ofReduceBool",))}, "it rests on Lean.ofReduceBool, and only"),
        ({"t": constant(), "Eq": constant("definition")}, "Eq is declared anew, and the template takes it from"),
        ({"t": constant(), "Nat": constant("inductive")}, "Nat is declared anew, and the template takes it from"),
    ],
)
def test_what_does_not_count_has_a_reason(constants: dict[str, Constant], said: str) -> None:
    found = judged(module(**constants), CHALLENGE, (), ("t",))
    assert found.theorems == frozenset() and found.why_not["t"].startswith(said)


def test_tests_may_rest_on_the_compiler_and_theorems_may_not() -> None:
    challenge, found = (
        module(**{name: constant(uses=("f", "Lean.ofReduceBool")) for name in ("t", "u")}) for _ in "ab"
    )
    verdict = judged(found, challenge, ("t",), ("u",))
    assert verdict.tests == {"t"} and verdict.theorems == frozenset() and not verdict.axioms_ok


@pytest.mark.parametrize("extension", FORBIDDEN)
def test_entries_that_change_the_language_or_compiled_code_disqualify(extension: str) -> None:
    found = judged(module({extension: 1}, t=constant()), CHALLENGE, (), ("t",))
    assert found.violations == [f"it uses {FORBIDDEN[extension]}"] and not found.axioms_ok


def test_an_axiom_disqualifies() -> None:
    found = judged(module(t=constant(), trick=constant("axiom", ())), CHALLENGE, (), ("t",))
    assert found.violations == ["it declares the axiom trick"]
