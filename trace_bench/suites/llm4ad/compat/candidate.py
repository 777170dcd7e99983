"""A candidate as a function: what evaluators that want a callable are given in its place."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from trace_bench.suites.llm4ad.compat.crossing import WRAPPED, needs_packing, packed, wrapper_of
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.worker import source_scan
from trace_bench.worker.codec import CodecError, encode
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Program

_TOLD = 2
_SHOWN = 8


class Candidate:
    """Called like the function `entry` of `source`, which runs in a process of its own.

    Arguments and results are copies, and plain data (see `crossing`); keywords become positions where the function
    names them. A function that raised is started anew at its next call, as an evaluator that goes on after a failure
    expects; one that died, hung or does not compile is not.

    Args:
        seconds: wall time for all calls together.
        header: what stands above `source` for the candidate, and is not counted in lines of errors.
        session: its `in_place` names the arguments that the function is to change. What it makes of those comes back;
            what it does to others does not, or it could change what it is judged by.

    Attributes:
        failures: of the candidate, first to last, each once.
        fault: an evaluator that calls it with what cannot cross. Evaluators may swallow what is raised, so it is kept.
    """

    def __init__(self, session: Session, header: str, source: str, entry: str, seconds: float) -> None:
        self.__name__ = self.__qualname__ = entry
        self._session = session
        self._changed = session.in_place
        self._source = f"{header}\n{source}" if header else source
        self._packed = self._wrapped = False
        self._above = header.count("\n") + 1 if header else 0
        self._seconds = seconds
        self._ends = time.monotonic() + seconds
        self._program: Program | None = None
        self._dead: CandidateError | None = None
        self._names: list[str] | None = None
        self._by_name = False
        self.failures: list[CandidateError] = []
        self.fault: ProblemError | None = None

    def __enter__(self) -> Candidate:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def __copy__(self) -> Candidate:
        """Itself, as the copy of a function is: evaluators copy objects that hold the function that they are given."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Candidate:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._dead is not None:
            raise self._dead
        args, names = self._positional(args, kwargs) if kwargs else (args, ())
        try:
            return self._asked(args, names)
        except CandidateError as error:
            self._close()
            if error.phase == "output" and (why := _cannot_cross(args)):
                self.fault = ProblemError(
                    f"the evaluator calls {self.__name__} with what no other process can be given ({why}); "
                    "execute_in_scorer: true among its eval_kwargs runs candidates in the scorer, unprotected"
                )
                raise self.fault from error
            if error.phase == "output" and not self._wrapped:
                self._wrapped = True  # the answer may hold a set or a range, which cross as lists
                return self(*args)
            raise self._failed(error) from error

    def _asked(self, args: tuple[Any, ...], names: tuple[str, ...]) -> Any:
        """The answer to a call, from the program's process, which is started if there is none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise CandidateError("timeout", f"the evaluation took more than {self._seconds:g} s")
        if self._program is None:
            limits = Limits(
                wall_seconds=left, cpu_seconds=max(30.0, self._seconds), memory_bytes=self._session.memory_bytes
            )
            self._packed = needs_packing(args)  # the other calls of an evaluation are alike
            self._wrapped |= bool(self._changed) or self._packed or self._takes_any()
            wrapper = wrapper_of(self.__name__) if self._wrapped else ""
            entry = WRAPPED if self._wrapped else self.__name__
            self._program = self._session.programs.open(self._source + wrapper, entry, limits)
        if not self._wrapped:
            return self._program(*args)
        sent = packed(args) if self._packed else args
        answer = self._program(list(self._changed), list(names), self._packed, *sent)
        return _taken_back(answer, args, self._changed) if self._changed else answer

    def _failed(self, error: CandidateError) -> CandidateError:
        line = error.line - self._above if error.line is not None and error.line > self._above else None
        shown = CandidateError(error.phase, error.message, line=line)
        if str(shown) not in map(str, self.failures):
            self.failures.append(shown)
        if error.phase not in ("call", "output"):
            self._dead = shown
        return shown

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """The arguments in order, and the names of the last of them that go by name."""
        if self._takes_any():
            return (*args, *kwargs.values()), tuple(kwargs)
        if not self._names:
            return (*args, *kwargs.values()), ()  # there is no such function, which its process finds out
        rest = self._names[len(args) : len(args) + len(kwargs)]
        if set(rest) != set(kwargs):
            named = ", ".join(kwargs)
            raise self._failed(
                CandidateError("call", f"{self.__name__} is called with {named}, which it does not take")
            )
        return (*args, *(kwargs[name] for name in rest)), ()

    def _takes_any(self) -> bool:
        """Whether it has arguments that go by name only."""
        if self._names is None:
            function = source_scan.functions(self._source).get(self.__name__)
            self._names = [] if function is None else source_scan.positional(function)
            self._by_name = function is not None and bool(function.args.kwarg or function.args.kwonlyargs)
        return self._by_name

    def _close(self) -> None:
        if self._program is not None:
            self._program.__exit__(None, None, None)
            self._program = None


def judged(
    session: Session,
    evaluate: Callable[[str, Callable[..., Any]], Any],
    header: str,
    source: object,
    entry: str,
    seconds: float,
) -> tuple[float, str]:
    """Score and feedback of a program, from what ``evaluate(source, function)`` of foreign code says; higher is better.

    An evaluator that goes on after a failure of the function, and gives a score, has the last word.

    Raises:
        CandidateError: the program failed, or the evaluator did with what the program answered.
        ProblemError: the evaluator asks for something that is not here.
    """
    if not isinstance(source, str):
        raise CandidateError("compile", f"the program must be source text, not {type(source).__name__}")
    text = f"{header}\n{source}" if header else source
    if session.in_scorer:
        from trace_bench.suites.llm4ad.compat.in_scorer import loaded, within

        with within(seconds):
            return _scored(evaluate(text, loaded(text, entry)), [])
    with Candidate(session, header, source, entry, seconds) as candidate:
        try:
            result = evaluate(text, candidate)
        except (ProblemError, CandidateError):
            raise
        except ImportError as error:
            raise missing(error) from error
        except (Exception, SystemExit) as error:
            if candidate.fault is not None:
                raise candidate.fault from error
            if candidate.failures:
                raise candidate.failures[0] from error
            raise CandidateError("score", f"the evaluator raised {type(error).__name__}: {error}") from error
        if candidate.fault is not None:
            raise candidate.fault
        return _scored(result, candidate.failures)


def called(session: Session, source: str, entry: str, seconds: float, arguments: Mapping[str, Any]) -> Any:
    """The answer of a program to one call by name, from its own process, or from this one where the job asks for that.

    Raises:
        CandidateError: the program failed, or took longer than `seconds`.
    """
    if session.in_scorer:
        from trace_bench.suites.llm4ad.compat.in_scorer import loaded, within

        with within(seconds):
            return loaded(source, entry)(**copy.deepcopy(dict(arguments)))
    with Candidate(session, "", source, entry, seconds) as candidate:
        return candidate(**arguments)


def missing(error: ImportError) -> ProblemError:
    """The sentence for a module that foreign code imports and the image does not have."""
    name = error.name or str(error)
    return ProblemError(
        f"the task's code imports {name}, which is not in the image of this task ({error}); "
        "see docs/how-to/foreign-tasks.md for what there is"
    )


def plain(value: Any) -> tuple[float | None, str]:
    """What an evaluator says as a finite number, of several the first, and the others in words; None if it is none."""
    more = ""
    if isinstance(value, dict) and "score" in value:
        more = "; ".join(f"{k} {_short(v)}" for k, v in list(value.items())[:_SHOWN] if k != "score")
        value = value["score"]
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple) and value:
        more = " ".join(map(_short, value[1:_SHOWN]))
        value = value[0]
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError):
        return None, more
    return (score if math.isfinite(score) else None), more


def _short(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, list | tuple | dict) else str(value)[:80]


def _scored(result: Any, failures: list[CandidateError]) -> tuple[float, str]:
    score, more = plain(result)
    if score is None:
        if failures:
            raise failures[0]
        shown = str(result)[:80]
        raise CandidateError("score", f"the evaluator gave {shown}, which is no finite number, for what it answered")
    said = [f"Score {score:.10g} (higher is better)."]
    said += [f"Besides: {more[:200]}."] if more else []
    said += [f"It failed on the way: {failure}." for failure in failures[:_TOLD]]
    return score, " ".join(said)


def _taken_back(answer: Any, args: tuple[Any, ...], changed: tuple[int, ...]) -> Any:
    """The result in `answer`, with the arguments that it changed put in place.

    Raises:
        CandidateError: what it made of them is of another kind.
    """
    if not (isinstance(answer, list) and len(answer) == 2 and isinstance(answer[1], list)):
        raise CandidateError("output", "the program's process answered with something that is no answer")
    new: Any
    for position, new in zip(changed, answer[1], strict=False):
        old: Any = args[position] if position < len(args) else None
        if type(new) is not type(old):
            raise CandidateError("output", f"argument {position} is no longer of type {type(old).__name__}")
        if isinstance(old, list):
            old[:] = new
        elif isinstance(old, dict):
            old.clear()
            old.update(new)
        elif hasattr(old, "shape"):
            if old.shape != new.shape or old.dtype != new.dtype:
                raise CandidateError("output", f"argument {position} is no longer an array of shape {old.shape}")
            old[...] = new
    return answer[0]


def _cannot_cross(args: tuple[Any, ...]) -> str:
    try:
        encode(packed(args) if needs_packing(args) else args)
    except CodecError as error:
        return str(error)
    return ""
