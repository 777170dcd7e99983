"""Builds the problem of a folder in CO-Bench's shape: each file of its data is an example.

As there, the program answers each instance of a file within a time limit, ``eval_func`` scores the answer, and
``norm_score`` makes it a share of the best known one. The score of a file is the mean over its instances, a failure
being 0. Instances that ``get_dev`` names are for training, the others are the test.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_bench.suites.llm4ad.compat import session
from trace_bench.suites.llm4ad.compat.candidate import called, missing, plain
from trace_bench.suites.llm4ad.compat.modules import World
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.suites.task_folder import place, scoring, task_fault
from trace_bench.worker import source_scan
from trace_bench.worker.problem import BuildContext, CandidateError, Example, Parameter, Problem, ProblemError

ENTRY = "solve"
PARAMETER = "code"
GRACE = 1.0
"""Seconds beyond the time limit of an instance."""
_OTHER_SPLIT = "of the other split"
_SHOWN = 5


def build(context: BuildContext) -> Problem:
    """Build the problem of `context.task_dir`.

    Raises:
        ProblemError: the folder's code raised, or there are no data beside it.
    """
    path = context.task_dir / str(context.spec["foreign"]["module"])
    here, world = Session.of(context), World(context.task_dir)
    with world.entered(), session.entered(here):
        try:
            module = world.load(path)
            dev = getattr(module, "get_dev", lambda: None)()
        except ImportError as error:
            raise missing(error) from error
        except (Exception, SystemExit) as error:
            raise task_fault(path, error) from error
    files = dict(_files(context))
    if not files:
        name = context.spec.get("data", {}).get("folder", "its folder")
        raise ProblemError(
            f"{place(path)}: found no data beside it; put the files of CO-Bench's {name!r} there, or name a copy "
            "of CO-Bench with --data"
        )
    template = template_of(path.read_text(encoding="utf-8"))
    signature = source_scan.signature_of(template, ENTRY)
    seconds = float(context.eval_kwargs["timeout_seconds"])
    guide = _Guide(module, world, here, path, files, dev if isinstance(dev, Mapping) else None, seconds)
    train, test = guide.examples("train"), guide.examples("test") if context.test_seed else ()
    score = scoring(context)
    objective = (
        f"{str(context.spec['statement']).strip()}\n\nWrite Python source that defines `{ENTRY}`:\n\n{signature}\n\n"
        f"It has {seconds:g} s for each instance. A score is a share of the best known one, so higher is better. A "
        "failure scores 0."
    )
    return Problem(
        parameters=(
            Parameter(PARAMETER, template, "code", f"Python source that defines {ENTRY}", entry=ENTRY,
                      signature=signature),
        ),
        guide=guide,
        train=train,
        test=test,
        objective=objective,
        direction=score.direction,
        failure_score=score.failure,
        metadata={"entry": ENTRY, "benchmark": "CO-Bench"},
    )  # fmt: skip


def template_of(source: str) -> str:
    """The function `ENTRY` of a module, with the imports of the module that it uses."""
    tree = ast.parse(source)
    function = source_scan.functions(tree)[ENTRY]
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    imports = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and used & {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    ]
    return "\n".join([*imports, ast.get_source_segment(source, function) or ast.unparse(function), ""])


def _files(context: BuildContext) -> Iterator[tuple[str, Path]]:
    """The data files of the folder, and those of a user's copy, by name in order."""
    folder = str(context.spec.get("data", {}).get("folder", ""))
    found: dict[str, Path] = {}
    for place_of in (context.task_dir, context.task_dir / folder):
        if not place_of.is_dir():
            continue
        for path in place_of.iterdir():
            of_code = path.suffix in (".py", ".pyc") or path.name.startswith((".", "__"))
            if not of_code and path != context.task_dir / folder:
                found.setdefault(path.name, path)
    yield from sorted(found.items())


@dataclass(frozen=True)
class _Guide:
    """Scores a program on the instances of one file.

    Attributes:
        dev: of each file, the numbers of its instances that are for training; None if all of all files are.
        seconds: time limit of an instance.
    """

    module: ModuleType
    world: World
    session: Session
    path: Path
    files: Mapping[str, Path]
    dev: Mapping[str, Sequence[int]] | None
    seconds: float
    loaded: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def examples(self, split: str) -> tuple[Example, ...]:
        """An example for each file with instances of `split` and a best known score."""
        names = [name for name in self.files if self._may_have(name, split) and self._counts(name)]
        return tuple(Example(f"{split}-{name}", name, {"file": name, "split": split}) for name in names)

    def __call__(self, query: Any, response: Any, reference: Mapping[str, str]) -> tuple[float, str]:
        name, split = reference["file"], reference["split"]
        if not isinstance(response, str):
            raise CandidateError("compile", f"the program must be source text, not {type(response).__name__}")
        with self.world.entered(), session.entered(self.session):
            instances = self._instances(name)
            chosen = [i for i in range(len(instances)) if self._is_of(name, i, split)]
            if not chosen:
                raise ProblemError(f"{place(self.path)}: get_dev() names no instance that {name} has")
            found: list[Any] = [_OTHER_SPLIT] * len(instances)
            failures: list[CandidateError] = []
            for i in chosen:
                try:
                    found[i] = self._scored(response, instances[i])
                except CandidateError as failure:
                    failures.append(failure)
                    found[i] = str(failure)
            normed = self._normed(name, found)
        if len(failures) == len(chosen):
            raise failures[0]
        shares = [0.0 if isinstance(normed[i], str) else float(normed[i]) for i in chosen]
        said = [f"{name}: mean {sum(shares) / len(shares):.4g} over {len(chosen)} instances (higher is better)."]
        said += [f"Instance {i}: {normed[i] if isinstance(normed[i], str) else round(share, 4)}."
                 for i, share in list(zip(chosen, shares, strict=True))[:_SHOWN]]  # fmt: skip
        return sum(shares) / len(shares), " ".join(said)

    def _may_have(self, name: str, split: str) -> bool:
        if self.dev is None or name not in self.dev:
            return (split == "train") == (self.dev is None)
        if split == "train":
            return True
        with self.world.entered(), session.entered(self.session):
            return any(self._is_of(name, i, split) for i in range(len(self._instances(name))))

    def _is_of(self, name: str, number: int, split: str) -> bool:
        if self.dev is None:
            return split == "train"
        for_training = number in (list(self.dev[name]) or [0]) if name in self.dev else False
        return for_training == (split == "train")

    def _counts(self, name: str) -> bool:
        """Whether ``norm_score`` keeps the file: those without a best known score are left out there."""
        with self.world.entered(), session.entered(self.session):
            try:
                return name in self._norm()({name: ([_OTHER_SPLIT], None)})
            except Exception:  # what is wrong with it, the first evaluation says
                return True

    def _norm(self) -> Callable[[Any], Any]:
        found: Callable[[Any], Any] = getattr(self.module, "norm_score", lambda results: results)
        return found

    def _normed(self, name: str, scores: list[Any]) -> list[Any]:
        try:
            return list(self._norm()({name: (scores, None)})[name][0])
        except (Exception, SystemExit) as error:
            raise task_fault(self.path, error) from error

    def _instances(self, name: str) -> list[Mapping[str, Any]]:
        if name not in self.loaded:
            try:
                found = self.module.load_data(str(self.files[name]))
            except ImportError as error:
                raise missing(error) from error
            except (Exception, SystemExit) as error:
                raise task_fault(self.path, error) from error
            self.loaded[name] = [found] if isinstance(found, Mapping) else list(found)
        return self.loaded[name]

    def _scored(self, source: str, instance: Mapping[str, Any]) -> float:
        answer = called(self.session, source, ENTRY, self.seconds + GRACE, instance)
        if not isinstance(answer, Mapping):
            raise CandidateError("output", f"{ENTRY} returned {type(answer).__name__} where a dict is expected")
        try:
            result = self.module.eval_func(**copy.deepcopy(dict(instance)), **{str(k): v for k, v in answer.items()})
        except ImportError as error:
            raise missing(error) from error
        except (Exception, SystemExit) as error:
            raise CandidateError("score", f"{error or type(error).__name__}") from error
        score, _ = plain(result)
        if score is None:
            raise CandidateError("score", f"eval_func gave {str(result)[:80]}, which is no finite number")
        return score
