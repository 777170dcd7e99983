"""Find what a code task lacks for its readers, without running or importing anything of it."""

from __future__ import annotations

import ast
from pathlib import Path

from trace_bench.suites.spec import TaskSpec
from trace_bench.worker import source_scan

SHORTEST_STATEMENT = 400


def lint(folder: Path, spec: TaskSpec) -> list[str]:
    """A sentence for each thing that the folder of a code task lacks; empty if it is as those that ship."""
    if spec.candidates is None:
        return []
    found: list[str] = []

    def wants(condition: object, sentence: str) -> None:
        if not condition:
            found.append(sentence)

    wants(len(spec.statement) > SHORTEST_STATEMENT, f"the statement is shorter than {SHORTEST_STATEMENT} characters")
    wants("\\n" not in spec.statement, "the statement holds a literal backslash and n")
    wants(f"`{spec.entry}(" in spec.statement, f"the statement does not say `{spec.entry}(…)` with its arguments")
    way = f"{spec.score.direction}d"
    wants(way in spec.statement, f"the statement does not say that the score must be {way}")
    wants(spec.source, "source is empty: say where the problem comes from")
    wants(spec.licence, "licence is empty")
    wants(spec.corrections, "corrections is empty: say what other versions do otherwise, or 'None.'")
    wants(spec.dependencies, "dependencies is empty: name what the evaluator imports")
    wants(spec.tags, "tags is empty")
    wants(spec.template_seconds, "template_seconds is missing: measure it with 'trace-bench check-task'")
    wants(spec.score.range is not None, "[score] has no range")
    wants("normalised" in spec.metrics and spec.metrics["normalised"].doc, "[metrics.normalised] with a doc is missing")
    for name, argument in spec.eval_kwargs.items():
        wants(argument.doc, f"[eval_kwargs.{name}] has no doc")
    wants(spec.candidates.reference, "[candidates] names no reference")
    wants(spec.candidates.worse, "[candidates] names no worse program")
    wants(spec.candidates.broken, "[candidates] names no broken program")
    return found + _signature(folder, spec)


def _signature(folder: Path, spec: TaskSpec) -> list[str]:
    assert spec.candidates is not None
    wanted = source_scan.functions(spec.signature or "").get(spec.entry or "")
    if wanted is None:
        return [f"signature is not a Python function named {spec.entry}"]
    found = []
    arguments = [argument.arg for argument in wanted.args.args]
    if not ast.get_docstring(wanted):
        found.append("signature has no docstring")
    if wanted.returns is None or any(argument.annotation is None for argument in wanted.args.args):
        found.append("signature has no types")
    broken = set(spec.candidates.broken)
    for name in (spec.candidates.template, *spec.candidates.proposals()):
        if name in broken:
            continue
        function = source_scan.functions((folder / name).read_bytes()).get(spec.entry or "")
        if function is None:
            found.append(f"{name} defines no {spec.entry}")
        elif [argument.arg for argument in function.args.args] != arguments:
            found.append(f"{name}: {spec.entry} takes other arguments than the signature says")
        elif not ast.get_docstring(function):
            found.append(f"{name}: {spec.entry} has no docstring that says what it does")
    return found
