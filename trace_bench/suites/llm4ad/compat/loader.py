"""Stands for ``llm4ad_loader``: the base class of embedded evaluators, and the guide that has one judge a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trace_bench.suites.llm4ad.compat import session
from trace_bench.suites.llm4ad.compat.candidate import judged
from trace_bench.suites.llm4ad.compat.opto_guide import Guide
from trace_bench.suites.llm4ad.compat.opto_trace import node
from trace_bench.worker.problem import ProblemError

SECONDS = 30.0
_CHANGES = ("use_protected_div", "use_numba_accelerate")


class Evaluation(ABC):
    """An evaluator: keeps its arguments, and evaluates."""

    def __init__(
        self,
        template_program: str = "",
        task_description: str = "",
        timeout_seconds: float | None = SECONDS,
        random_seed: int | None = None,
        exec_code: bool = True,
        safe_evaluate: bool = False,
        **kwargs: Any,
    ) -> None:
        self.template_program = template_program
        self.task_description = task_description
        self.timeout_seconds = timeout_seconds
        self.random_seed = random_seed
        self.exec_code = exec_code
        self.safe_evaluate = safe_evaluate
        self.kwargs = kwargs
        if wanted := [name for name in _CHANGES if kwargs.get(name)]:
            raise ProblemError(f"the evaluator asks for {wanted[0]}, which changes the program; that is not done here")

    @abstractmethod
    def evaluate_program(self, program_str: str, callable_func: Callable[..., Any], **kwargs: Any) -> Any:
        """The score of the program, higher is better; None for a failure."""


class LLM4ADEvaluation(Evaluation):
    """Stands for ``llm4ad.base.Evaluation``, whose arguments have another order.

    Raises:
        ProblemError: it asks for a change of the program, such as a seed in its first line.
    """

    def __init__(
        self,
        template_program: Any = "",
        task_description: str = "",
        use_numba_accelerate: bool = False,
        use_protected_div: bool = False,
        protected_div_delta: float = 1e-5,
        random_seed: int | None = None,
        timeout_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        changes = {"use_numba_accelerate": use_numba_accelerate, "use_protected_div": use_protected_div}
        super().__init__(str(template_program), task_description, timeout_seconds, random_seed, **changes, **kwargs)
        if random_seed is not None:
            raise ProblemError("the evaluator asks for random_seed, which changes the program; that is not done here")


class AutonomousEvaluatorGuide(Guide):
    """Has `evaluator` evaluate a program, as a function that runs in the candidate's own process."""

    def __init__(self, evaluator: Any, entry_name: str, import_header: str = "", timeout: float | None = None) -> None:
        self.evaluator = evaluator
        self._entry = entry_name
        self._header = import_header
        self._seconds = float(timeout or SECONDS)
        self._session = session.current()

    def get_feedback(self, query: Any, response: Any, reference: Any = None, **kwargs: Any) -> tuple[float, str]:
        header = reference.get("imports", "") if isinstance(reference, Mapping) else self._header
        evaluate = self.evaluator.evaluate_program
        return judged(self._session, evaluate, header or "", response, self._entry, self._seconds)


AutonomousEvaluator = LLM4ADEvaluatorGuide = AutonomousEvaluatorGuide


class LLM4ADEvaluatorLoader:
    """Of folders that import an installed LLM4AD by path: these run as ``llm4ad_pkg``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ProblemError(
            "the task loads its evaluator from a checkout of LLM4AD; name it as llm4ad_pkg:<group>/<task>"
        )


def build_trace_problem_from_config(**config: Any) -> dict[str, Any]:
    """See `LLM4ADEvaluatorLoader`."""
    LLM4ADEvaluatorLoader()
    return {"param": node("")}


def load_subdir_as_text(repo_id: str, subdir: str, *, skip_ext: tuple[str, ...] = (".py",), **other: Any) -> Any:
    """The files of the folder `subdir` beside the task's module, as rows ``{"text": line}``: a sandbox has no network.

    Raises:
        ProblemError: no such folder.
    """
    folder = _beside(repo_id, subdir)
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix not in skip_ext)
    return {p.name: [{"text": line} for line in p.read_text(encoding="utf-8").splitlines()] for p in files}


def load_subdir_as_pickle(repo_id: str, subdir: str, **other: Any) -> Any:
    """Refused: unpickling executes what is in the file.

    Raises:
        ProblemError: always.
    """
    raise ProblemError(
        f"the task unpickles {subdir} of the data set {repo_id}, which is not done here; convert the data"
    )


def _beside(repo_id: str, subdir: str) -> Path:
    root = session.current().folder
    folder = root / subdir
    if not folder.is_dir() or not folder.resolve().is_relative_to(root.resolve()):
        raise ProblemError(
            f"the task downloads {subdir!r} of the data set {repo_id}, and a sandbox has no network; put the files "
            f"into a folder of that name in the task folder"
        )
    return folder
