"""Builds the problem of a folder whose module defines ``build_trace_problem(**eval_kwargs)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_bench.suites.llm4ad.compat import session
from trace_bench.suites.llm4ad.compat.candidate import missing, plain
from trace_bench.suites.llm4ad.compat.modules import World
from trace_bench.suites.llm4ad.compat.opto_trace import Node, held
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.suites.task_folder import place, scoring, task_fault
from trace_bench.worker import source_scan
from trace_bench.worker.problem import (
    BuildContext,
    CandidateError,
    Example,
    Ops,
    Parameter,
    ParameterKind,
    Problem,
    ProblemError,
)

BUILDER = "build_trace_problem"
EXPECTED = ("param", "guide", "train_dataset", "optimizer_kwargs", "metadata")


def build(context: BuildContext) -> Problem:
    """Build the problem of `context.task_dir`.

    Raises:
        ProblemError: the folder's code raised, or what it returned is not what is expected.
    """
    path = context.task_dir / str(context.spec["foreign"]["module"])
    here = Session.of(context)
    world = World(context.task_dir)
    with world.entered(), session.entered(here):
        made = _made(world, path, session.arguments(context))
    where = f"{place(path)}, {BUILDER}()"
    if not isinstance(made, dict):
        raise ProblemError(f"{where} returned {type(made).__name__} where a dict is expected")
    if lacking := [name for name in EXPECTED if made.get(name) is None]:
        raise ProblemError(
            f"{where} returned a dict without {lacking[0]!r}; it has {', '.join(map(str, made)) or 'none'}"
        )
    nodes = _nodes(made["param"], where)
    metadata = made["metadata"] if isinstance(made["metadata"], Mapping) else {}
    train = _examples(made["train_dataset"], "train", where)
    if not train:
        raise ProblemError(f"{where}: train_dataset is empty")
    first = train[0].reference
    entry = (first.get("entry") if isinstance(first, Mapping) else None) or metadata.get("entry")
    parameters = {name: _parameter(name, node, entry, where) for name, node in nodes.items()}
    validate = made.get("validate_dataset") or made.get("validation_dataset")
    score = scoring(context)
    return Problem(
        parameters=tuple(parameters.values()),
        guide=_Guide(made["guide"], world, here, path),
        agent=None if isinstance(made["param"], Node) else _agent(made["param"], nodes, world, here),
        train=train,
        validate=_examples(validate, "validate", where) if validate else (),
        test=_examples(made["test_dataset"], "test", where) if made.get("test_dataset") and context.test_seed else (),
        objective=_objective(made["optimizer_kwargs"], context, parameters),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
        metadata={"entry": entry, "benchmark": str(metadata.get("benchmark", ""))},
    )


def _made(world: World, path: Path, arguments: dict[str, Any]) -> Any:
    try:
        module: ModuleType = world.load(path)
        return getattr(module, BUILDER)(**arguments)
    except ProblemError:
        raise
    except ImportError as error:
        raise missing(error) from error
    except (Exception, SystemExit) as error:
        raise task_fault(path, error) from error


def _nodes(param: Any, where: str) -> dict[str, Node]:
    """The trainable nodes, by the names of parameters."""
    found = [("", param)] if isinstance(param, Node) else list(getattr(param, "__dict__", {}).items())
    nodes: dict[str, Node] = {}
    for attribute, node in found:
        if isinstance(node, Node) and node.trainable:
            name = re.sub(r"\W", "_", (node.name or attribute).partition(":")[0]).strip("_")
            name = name if name.isidentifier() else attribute or "parameter"
            if name in nodes:
                raise ProblemError(f"{where}: two trainable nodes are called {name}; give them names")
            nodes[name] = node
    if not nodes:
        raise ProblemError(
            f"{where}: param is {type(param).__name__}, not a trainable node of opto.trace or an object with some"
        )
    return nodes


def _parameter(name: str, node: Node, entry: Any, where: str) -> Parameter:
    value = node.data
    kind: ParameterKind = "text"
    found: str | None = None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ProblemError(f"{where}: the node {name} holds {type(value).__name__}; text and numbers can be trained")
    if not isinstance(value, str):
        kind = "int" if isinstance(value, int) else "float"
    else:
        defined = list(source_scan.functions(value))
        found = entry if isinstance(entry, str) and entry in defined else defined[0] if len(defined) == 1 else None
        kind = "code" if found else "text"
    signature = source_scan.signature_of(str(value), found) if found else ""
    return Parameter(name, value, kind, description=node.description, entry=found, signature=signature)


def _examples(dataset: Any, split: str, where: str) -> tuple[Example, ...]:
    if not isinstance(dataset, Mapping) or "inputs" not in dataset:
        raise ProblemError(f"{where}: the {split} data are {type(dataset).__name__}; give a dict with inputs and infos")
    inputs = list(dataset["inputs"])
    infos = dataset.get("infos", dataset.get("info"))
    infos = [None] * len(inputs) if infos is None else list(infos)
    if len(infos) != len(inputs):
        raise ProblemError(f"{where}: the {split} data have {len(inputs)} inputs and {len(infos)} infos")
    return tuple(Example(f"{split}-{i}", q, r) for i, (q, r) in enumerate(zip(inputs, infos, strict=True)))


def _objective(given: Any, context: BuildContext, parameters: Mapping[str, Parameter]) -> str:
    first = given[0] if isinstance(given, list | tuple) and given else given
    stated = first.get("objective") if isinstance(first, Mapping) else None
    text = stated.strip() if isinstance(stated, str) and stated.strip() else str(context.spec["statement"]).strip()
    signatures = [p.signature for p in parameters.values() if p.signature]
    return "\n\n".join([text, *signatures, f"Higher is better. A failure scores {scoring(context).failure:g}."])


@dataclass(frozen=True)
class _Guide:
    """The folder's guide, called in its world; what it says is a score, the higher the better, and words."""

    guide: Any
    world: World
    session: Session
    path: Path

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[Any, str]:
        get: Callable[..., Any] = getattr(self.guide, "get_feedback", self.guide)
        try:
            with self.world.entered(), session.entered(self.session):
                outcome = get(query, response, reference)
        except (CandidateError, ProblemError):
            raise
        except ImportError as error:
            raise missing(error) from error
        except (Exception, SystemExit) as error:
            if self.session.executes or self.session.in_scorer:  # what the program raised, most likely
                raise CandidateError("call", f"the guide raised {type(error).__name__}: {error}") from error
            raise task_fault(self.path, error) from error
        if not isinstance(outcome, tuple | list) or len(outcome) < 2:
            raise ProblemError(
                f"{place(self.path)}: the guide gave {type(outcome).__name__}; (score, feedback) is expected"
            )
        score, more = plain(outcome[0])
        if score is None:
            raise CandidateError("score", f"the guide gave the score {str(outcome[0])[:80]}, which is no finite number")
        words = "" if outcome[1] is None else str(outcome[1])
        return score, f"{words} Besides: {more}." if more else words


def _agent(agent: Any, nodes: Mapping[str, Node], world: World, here: Session) -> Callable[[Ops, Any], Any]:
    """The folder's agent as one operator of all its nodes."""
    if not callable(agent):
        raise ProblemError(
            f"param is {type(agent).__name__}, which cannot be called; give it a forward() or __call__()"
        )

    def respond(query: Any, *values: Any) -> Any:
        """The agent's answer to the query, with these values of its nodes."""
        with world.entered(), session.entered(here):
            for node, value in zip(nodes.values(), values, strict=True):
                node._data = value
            return held(agent(query))

    def run(ops: Ops, query: Any) -> Any:
        return ops.apply(respond, query, *(ops.param(name) for name in nodes))

    return run
