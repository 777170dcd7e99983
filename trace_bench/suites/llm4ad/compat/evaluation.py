"""Builds problems from evaluations in the shape of LLM4AD's own: of a folder, or of the installed package ``llm4ad``.

The package's own ``__init__`` files are not run: those import its search methods, and these much else.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.suites.llm4ad.compat import session
from trace_bench.suites.llm4ad.compat.candidate import judged, missing
from trace_bench.suites.llm4ad.compat.modules import World
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.suites.task_folder import scoring, task_fault
from trace_bench.worker import source_scan
from trace_bench.worker.problem import BuildContext, Example, Parameter, Problem, ProblemError

PARAMETER = "code"


def build(context: BuildContext) -> Problem:
    """Build the problem of the evaluation that ``[foreign]`` names.

    Raises:
        ProblemError: the package is not in the image, or the code raised.
    """
    table = context.spec["foreign"]
    module, name, arguments = str(table["module"]), str(table["evaluation"]), session.arguments(context)
    of_package = bool(table.get("package"))
    here, world = Session.of(context), World(None if of_package else context.task_dir)
    with world.entered(), session.entered(here):
        if of_package:
            evaluation = _of_package(world, module, name, arguments)
        else:
            evaluation = _of_folder(world, context.task_dir / module, name, arguments)
    template = str(evaluation.template_program).strip() + "\n"
    entry = str(context.spec["entry"])
    if entry not in source_scan.functions(template):
        raise ProblemError(f"the template of llm4ad's {module} defines no {entry}")
    score = scoring(context)
    seconds = float(context.eval_kwargs.get("timeout_seconds") or context.spec["limits"]["wall_seconds"])
    signature = source_scan.signature_of(template, entry)
    stated = f"{str(evaluation.task_description).strip()}\n\nWrite Python source that defines `{entry}`:\n\n{signature}"
    return Problem(
        parameters=(Parameter(PARAMETER, template, "code", f"Python source that defines {entry}", entry=entry,
                              signature=signature),),
        guide=_Guide(evaluation, world, here, entry, seconds),
        train=(Example("train-0"),),
        objective=f"{stated}\n\nHigher is better. A failure scores {score.failure:g}.",
        direction=score.direction,
        failure_score=score.failure,
        metadata={"entry": entry, "package": "llm4ad"},
    )  # fmt: skip


@dataclass(frozen=True)
class _Guide:
    evaluation: Any
    world: World
    session: Session
    entry: str
    seconds: float

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str]:
        with self.world.entered(), session.entered(self.session):
            evaluate = self.evaluation.evaluate_program
            return judged(self.session, evaluate, "", response, self.entry, self.seconds)


def _of_folder(world: World, path: Path, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return getattr(world.load(path), name)(**arguments)
    except ProblemError:
        raise
    except ImportError as error:
        raise missing(error) from error
    except (Exception, SystemExit) as error:
        raise task_fault(path, error) from error


def _of_package(world: World, module: str, name: str, arguments: dict[str, Any]) -> Any:
    found = importlib.util.find_spec("llm4ad")
    if found is None or not found.submodule_search_locations:
        raise ProblemError("the package llm4ad is not installed here; these tasks run in the image llm4ad+llm4ad_pkg")
    root = Path(next(iter(found.submodule_search_locations)))
    world.namespace("llm4ad", [str(root)])
    below = root
    dotted = "llm4ad"
    for part in ("task", *module.split(".")):
        below, dotted = below / part, f"{dotted}.{part}"
        world.namespace(dotted, [str(below)])
    if not below.is_dir():
        raise ProblemError(f"this version of llm4ad has no task {module.replace('.', '/')}")
    try:
        return getattr(importlib.import_module(f"{dotted}.evaluation"), name)(**arguments)
    except ImportError as error:
        raise missing(error) from error
    except (Exception, SystemExit) as error:
        raise ProblemError(f"llm4ad's {name}({_given(arguments)}) raised {type(error).__name__}: {error}") from error


def _given(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
