"""Builds the problem of a folder in the shape of OpenEvolve or ShinkaEvolve.

The parts between marks are the parameters. The evaluator gets the path of the complete program and runs it itself, in
this process, so a job is unprotected.
"""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_bench.suites.evolve_blocks import Marked
from trace_bench.suites.llm4ad.compat import session
from trace_bench.suites.llm4ad.compat.candidate import missing
from trace_bench.suites.llm4ad.compat.in_scorer import within
from trace_bench.suites.llm4ad.compat.modules import World
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.suites.task_folder import place, scoring, task_fault
from trace_bench.worker import source_scan
from trace_bench.worker.problem import BuildContext, CandidateError, Example, Ops, Parameter, Problem, ProblemError

PROGRAMS = {"evaluator.py": "initial_program.py", "evaluate.py": "initial.py"}
COMBINED = "combined_score"
_SHOWN = 12
_LONGEST = 1000


def build(context: BuildContext) -> Problem:
    """Build the problem of `context.task_dir`.

    Raises:
        ProblemError: the evaluator cannot be imported.
    """
    path = context.task_dir / str(context.spec["foreign"]["module"])
    source = (context.task_dir / PROGRAMS[path.name]).read_text(encoding="utf-8")
    marked = Marked.of(source)
    here, world = Session.of(context), World(context.task_dir)
    with world.entered(), session.entered(here):
        try:
            module = world.load(path)
        except ImportError as error:
            raise missing(error) from error
        except (Exception, SystemExit) as error:
            raise task_fault(path, error) from error
    parameters = tuple(_parameters(marked))
    names = [parameter.name for parameter in parameters]

    def assembled(*blocks: str) -> str:
        """The program with these blocks."""
        return marked.with_blocks(blocks)

    def run(ops: Ops, query: Any) -> Any:
        return ops.apply(assembled, *map(ops.param, names))

    score = scoring(context)
    return Problem(
        parameters=parameters,
        guide=_Guide(module, world, here, path, marked, context.eval_kwargs),
        agent=run if len(parameters) > 1 else None,
        train=(Example("train-0"),),
        objective=f"{str(context.spec['statement']).strip()}\n\nThe program:\n\n{source.strip()}\n\n"
        f"Only what is between its marks can change: {', '.join(names)}. Higher is better. A failure scores "
        f"{score.failure:g}.",
        direction=score.direction,
        failure_score=score.failure,
        metadata={"benchmark": "OpenEvolve" if path.name == "evaluator.py" else "ShinkaEvolve"},
    )


def _parameters(marked: Marked) -> list[Parameter]:
    fixed = source_scan.parse("".join(marked.fixed))
    used = {node.id for node in ast.walk(fixed) if isinstance(node, ast.Name)} if fixed is not None else set()
    found = []
    for number, block in enumerate(marked.blocks, 1):
        name = "code" if len(marked.blocks) == 1 else f"block_{number}"
        defined = list(source_scan.functions(block))
        entry = next((each for each in defined if each in used), defined[-1] if defined else None)
        signature = source_scan.signature_of(block, entry) if entry else ""
        kind: Any = "code" if entry else "text"
        about = f"Python source of the part {number} between marks"
        found.append(Parameter(name, block, kind, about, entry=entry, signature=signature))
    return found


@dataclass(frozen=True)
class _Guide:
    module: ModuleType
    world: World
    session: Session
    path: Path
    marked: Marked
    arguments: Mapping[str, Any]

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str]:
        if not isinstance(response, str):
            raise CandidateError("compile", f"the program must be source text, not {type(response).__name__}")
        source = self.marked.with_blocks([response]) if len(self.marked.blocks) == 1 else response
        with tempfile.TemporaryDirectory() as folder, self.world.entered(), session.entered(self.session):
            program = Path(folder) / "program.py"
            program.write_text(source, encoding="utf-8")
            if self.path.name == "evaluate.py":
                return self._shinka(program, Path(folder) / "results")
            return self._openevolve(program)

    def _called(self, name: str, *arguments: object) -> Any:
        """The result of a function of the evaluator, which runs the program."""
        if not callable(function := getattr(self.module, name, None)):
            raise ProblemError(f"{place(self.path)} defines no {name}()")
        with within(float(self.arguments["timeout_seconds"])):
            return function(*map(str, arguments))

    def _openevolve(self, program: Path) -> tuple[float, str]:
        stages = [f"evaluate_stage{n}" for n in (1, 2, 3)]
        names = [name for name in stages if self.arguments.get("cascade") and hasattr(self.module, name)]
        thresholds = list(self.arguments.get("cascade_thresholds") or [])
        metrics, artifacts = dict[str, Any](), dict[str, Any]()
        said = ""
        for number, name in enumerate(names or ["evaluate"]):
            result = self._called(name, program)
            now = getattr(result, "metrics", result)
            if not isinstance(now, Mapping):
                raise ProblemError(f"{place(self.path)}: {name}() returned {type(now).__name__}; a dict is expected")
            with _reading():
                metrics |= now
                artifacts |= dict(getattr(result, "artifacts", {}) or {})
                least = thresholds[number] if number < len(thresholds) else None
                if number + 1 < len(names) and least is not None and _score(now) < least:
                    said = f" It stopped after {name}, whose score must be at least {least:g}."
                    break
        with _reading():
            return _score(metrics), _feedback(metrics, artifacts) + said

    def _shinka(self, program: Path, results: Path) -> tuple[float, str]:
        results.mkdir()
        self._called("main", program, results)
        metrics, correct = (_read(results / name, self.path) for name in ("metrics.json", "correct.json"))
        if correct.get("correct") is not True:
            raise CandidateError("score", f"the program is not correct: {correct.get('error') or 'no reason given'}")
        words = metrics.pop("text_feedback", "")
        with _reading():
            return _score(metrics), _feedback(metrics, {"text_feedback": words} if words else {})


@contextmanager
def _reading() -> Iterator[None]:
    """Around what calls methods of values that the program made: what they raise is the candidate's failure."""
    try:
        yield
    except CandidateError:
        raise
    except Exception as error:
        why = str(error) if type(error).__module__ == "builtins" else type(error).__name__
        raise CandidateError("score", f"the evaluator's result cannot be read: {why}") from error


def _score(metrics: Mapping[str, Any]) -> float:
    """``combined_score``, else the mean of all numbers.

    Raises:
        CandidateError: ``combined_score`` is not a number, or there are no numbers.
    """
    numbers = {k: float(v) for k, v in metrics.items() if _is_number(v)}
    if not numbers or (COMBINED in metrics and COMBINED not in numbers):
        raise CandidateError("score", f"the evaluator gave no number, but {str(dict(metrics))[:200]}")
    return numbers[COMBINED] if COMBINED in numbers else sum(numbers.values()) / len(numbers)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0


def _feedback(metrics: Mapping[str, Any], artifacts: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name} {str(value)[:80]}" for name, value in list(metrics.items())[:_SHOWN])
    texts = [f"{name}: {str(value)[:_LONGEST]}" for name, value in list(artifacts.items())[:_SHOWN]]
    return "\n".join([f"Metrics (higher is better): {shown}.", *texts])


def _read(path: Path, evaluator: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProblemError(f"{place(evaluator)}: main() left no {path.name} that can be read: {error}") from error
    if not isinstance(found, dict):
        raise ProblemError(f"{place(evaluator)}: main() wrote no object to {path.name}")
    return found
