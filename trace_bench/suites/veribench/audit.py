"""Judges a candidate by the file that Lean has compiled from it, and by nothing that the candidate can print.

The *challenge* is the template, which is trusted, compiled with the same tests; its functions and proofs are ``sorry``.
Each frozen theorem, each test, and whatever their statements name must be the same declaration in the candidate's file:
of the same kind and type, and of the same value where the challenge gives one. So a statement cannot be weakened by a
changed type or helper, an instance, a coercion, a variable or a notation: it would be another term. What a proof rests
on is collected through all declarations of the file, as ``#print axioms`` does.

The idea of comparing a solution with a challenge by their compiled files is that of ``leanprover/comparator``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_bench.suites.veribench.olean import Constant, Module

STANDARD = frozenset({"propext", "Classical.choice", "Quot.sound"})
"""Axioms that a proof may rest on."""
COMPILER = frozenset({"Lean.ofReduceBool", "Lean.trustCompiler"})
"""Those that a test may, which ``native_decide`` has run."""
_SORRY = "sorryAx"
_OTHER = frozenset({_SORRY, *COMPILER, "Lean.ofReduceNat", "lcProof", "lcErased", "lcUnreachable", "lcAny", "lcVoid"})
"""Further axioms of Lean's own library. Its theorems rest on standard ones."""
FORBIDDEN: Mapping[str, str] = {
    "Lean.Compiler.implementedByAttr": "implemented_by",
    "Lean.externAttr": "extern",
    "Lean.exportAttr": "export",
    "Lean.Compiler.CSimp.ext": "csimp",
    "Lean.regularInitAttr": "initialize",
    "Lean.builtinInitAttr": "builtin_initialize",
    "Lean.Parser.parserExtension": "syntax or notation",
    "Lean.macroAttribute": "macro",
    "Lean.Elab.macroAttribute": "macro",
    "Lean.Elab.Command.commandElabAttribute": "elab",
    "Lean.Elab.Term.termElabAttribute": "elab",
    "Lean.Elab.Tactic.tacticElabAttribute": "elab",
    "Lean.Meta.Simp.simprocExtension": "simproc",
    "Lean.Meta.unificationHintExtension": "unif_hint",
    "Lean.attributeExtension": "an attribute of its own",
}  # fmt: skip
"""Entries that no candidate needs, by the extension of the environment that holds them."""


@dataclass(frozen=True)
class Verdict:
    """What a compiled file is worth.

    Attributes:
        tests: those that pass.
        theorems: those that are proved.
        why_not: of the other ones, by name.
        violations: what disqualifies the file as a whole.
        axioms_ok: no proof of a frozen theorem rests on an axiom that is not standard; ``sorry`` aside.
    """

    tests: frozenset[str]
    theorems: frozenset[str]
    why_not: Mapping[str, str]
    violations: Sequence[str]
    axioms_ok: bool


def judged(found: Module, challenge: Module, tests: Sequence[str], theorems: Sequence[str]) -> Verdict:
    """The verdict on `found`.

    Args:
        tests: names of the theorems that the harness has appended to both.
        theorems: names of frozen theorems.
    """
    comparison = _Comparison(found, challenge)
    violations = [
        f"it declares the axiom {name}" for name, constant in found.constants.items() if constant.kind == "axiom"
    ]
    violations += [
        f"it uses {what}"
        for extension, what in FORBIDDEN.items()
        if found.entries.get(extension, 0) > challenge.entries.get(extension, 0)
    ]
    passed, why_not, axioms_ok = {}, {}, True
    for name in (*tests, *theorems):
        allowed = STANDARD | COMPILER if name in tests else STANDARD
        axioms = axioms_of(name, found)
        beyond = sorted(axioms - allowed)
        if name not in tests and axioms - STANDARD - {_SORRY}:
            axioms_ok = False
        if said := comparison.difference(name):
            why_not[name] = said
        elif _SORRY in axioms:
            why_not[name] = "it rests on sorry"
        elif beyond:
            why_not[name] = f"it rests on {', '.join(beyond)}, and only {', '.join(sorted(allowed))} are allowed"
        else:
            passed[name] = True
    return Verdict(
        tests=frozenset(name for name in tests if name in passed),
        theorems=frozenset(name for name in theorems if name in passed),
        why_not=why_not,
        violations=violations,
        axioms_ok=axioms_ok and not violations,
    )


def axioms_of(name: str, module: Module) -> frozenset[str]:
    """Axioms that the declaration `name` of `module` rests on. Something unsafe that it uses counts as one."""
    pending, seen, found = [name], {name}, set()
    while pending:
        at = pending.pop()
        constant = module.constants.get(at)
        if constant is None:
            if at in _OTHER or at in STANDARD:
                found.add(at)
            continue
        if constant.kind == "axiom" or not constant.safe:
            found.add(at)
        for each in constant.uses - seen:
            seen.add(each)
            pending.append(each)
    return frozenset(found)


class _Comparison:
    """Compares declarations of a file with those of the challenge, each once."""

    def __init__(self, found: Module, challenge: Module) -> None:
        self._found = found.constants
        self._challenge = challenge.constants
        self._said: dict[str, str] = {}

    def difference(self, name: str) -> str:
        """How the declaration `name`, or one that its statement names, differs; empty if none does."""
        pending, seen = [name], {name}
        while pending:
            at = pending.pop()
            if at not in self._said:
                self._said[at] = self._differs(at)
            if said := self._said[at]:
                return said
            for each in self._matters(self._challenge[at]) - seen:
                if each in self._challenge:
                    seen.add(each)
                    pending.append(each)
                elif each in self._found:  # a private name that reads like one of the library's
                    return f"{each} is declared anew, and the template takes it from Lean's library"
        return ""

    @staticmethod
    def _matters(expected: Constant) -> frozenset[str]:
        return expected.uses if _is_given(expected) else expected.mentions

    def _differs(self, name: str) -> str:
        expected, found = self._challenge[name], self._found.get(name)
        if found is None:
            return f"{name} is missing"
        if found.kind != expected.kind:
            return f"{name} is declared as {found.kind}, and has to be a {expected.kind}"
        if found.type != expected.type:
            return f"{name} has another type than in the template"
        if not found.safe:
            return f"{name} is unsafe"
        if _is_given(expected) and found.value != expected.value:
            return f"{name} has another definition than in the template"
        return ""


def _is_given(expected: Constant) -> bool:
    """Whether the challenge says what the declaration is, and not only its type."""
    return expected.kind in ("definition", "inductive") and _SORRY not in expected.uses
