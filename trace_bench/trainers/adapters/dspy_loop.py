"""The optimizers of the package dspy on one search: a program that is our problem, and a model. See `dspy_trainer`."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from trace_bench.trainers.adapters import demos
from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.adapters.foreign import Foreign
from trace_bench.trainers.adapters.imports import importing
from trace_bench.trainers.adapters.judging import Judging
from trace_bench.trainers.base import Rollout, Search, Slot, State
from trace_bench.trainers.common_params import MANY
from trace_bench.worker.evaluate import text_of
from trace_bench.worker.graph_nodes import clipped

# Read when dspy is imported: HOME cannot be written to in a sandbox.
os.environ.setdefault("DSPY_CACHEDIR", tempfile.gettempdir() + "/dspy")
with importing("dspy"):
    import dspy
    import tqdm
    from dspy.teleprompt import COPRO, GEPA, SIMBA, BootstrapFewShot, MIPROv2, bootstrap
    from dspy.teleprompt import utils as teleprompt
    from dspy.utils import parallelizer
    from gepa.core import engine


NOT_SHOWN = "(not shown: see the feedback)"
WITH_DEMOS = ("mipro_demos", "bootstrap")


class _Quiet(tqdm.tqdm):  # type: ignore[misc]
    """A progress bar that does not show: dspy and gepa ask for theirs whatever they are told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "disable": True})


parallelizer.tqdm, engine.tqdm = SimpleNamespace(tqdm=_Quiet), _Quiet
bootstrap.tqdm = SimpleNamespace(tqdm=_Quiet)
bootstrap.print = teleprompt.print = logging.getLogger("dspy.teleprompt").info


class Program(dspy.Module):  # type: ignore[misc]
    """An agent whose modules are described by their instructions. It answers a query of the task, and is scored."""

    def __init__(self, run: Run, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._run = run
        for name, text in texts.items():
            signature = dspy.Signature("task, query -> response").with_instructions(text)
            setattr(self, name, dspy.Predict(signature))

    def __deepcopy__(self, memo: Any) -> Program:
        return self.deepcopy()

    def deepcopy(self) -> Program:
        """A copy for the same run; predictors are copied as dspy does, with their instructions and demos."""
        copy = Program(self._run, {})
        for name, predictor in self.named_predictors():
            setattr(copy, name, predictor.deepcopy())
        return copy

    def reset_copy(self) -> Program:
        return self.deepcopy()

    def forward(self, task: str, query: str, place: str) -> Any:
        return self._run.forward(self, task, query, place)


class Model(dspy.BaseLM):  # type: ignore[misc]
    """The job's model, for dspy. Of several choices each is a call of its own, with a slot of its own."""

    def __init__(self, run: Run) -> None:
        super().__init__(model="job", cache=False)
        self._run = run

    def forward(self, prompt: str | None = None, messages: Any = None, **kwargs: Any) -> Any:
        told = messages or [{"role": "user", "content": prompt}]
        kwargs = {**self.kwargs, **kwargs}  # a copy of the model has its temperature there
        request = {name: kwargs[name] for name in ("temperature", "response_format") if kwargs.get(name) is not None}
        if not isinstance(request.get("response_format", {}), dict):
            request["response_format"] = {"type": "json_object"}
        texts = [self._run.ask(told, request) for _ in range(kwargs.get("n") or 1)]
        choices = [
            SimpleNamespace(message=SimpleNamespace(content=text, tool_calls=None), finish_reason="stop")
            for text in texts
        ]
        return SimpleNamespace(choices=choices, usage={}, model=self.model)

    def __deepcopy__(self, memo: Any) -> Model:
        return self


class Run:
    """Callable once, on the framework's thread: the whole search."""

    def __init__(self, search: Search, bridge: Bridge) -> None:
        self._search = search
        self._foreign = Foreign(search, bridge)
        optimizer = search.params["dspy_optimizer"]
        self._judging = Judging(self._foreign)
        self._optimizer = optimizer
        self._calls = 0
        problem = search.problem
        self._demo_parameter = (
            demos.parameter_for(problem, search.params["demo_parameter"]) if optimizer in WITH_DEMOS else None
        )
        self._found_demos = False
        self._task = "\n".join([problem.objective, *(self._foreign.describe(p.name) for p in problem.trainable)])
        self._start = Program(self, self._foreign.start)
        self._known = {self._text(predictor): name for name, predictor in self._start.named_predictors()}

    def __call__(self) -> State | None:
        search, params = self._search, self._search.params
        logger = logging.getLogger("dspy")
        logger.propagate = False
        logger.handlers = [logging.StreamHandler(sys.stdout) if params["verbose"] else logging.NullHandler()]
        warnings.filterwarnings("ignore", module="dspy")
        model = Model(self)
        with dspy.context(lm=model, num_threads=1, disable_history=True):
            try:
                best, others = getattr(self, f"_{self._optimizer}")(model)
            except dspy.DSPyError as error:
                self._judging.flush()
                said = clipped(str(error).strip().splitlines()[0], 300)
                self._foreign.warn(f"dspy gave up on an answer of the model, and the search ended there: {said}")
                return None
        self._judging.flush()
        if self._demo_parameter is not None and not self._found_demos:
            self._foreign.warn(
                "there are no demos: no training example has a short text as its answer and a score of metric_threshold"
            )
        if not self._foreign.asked and self._optimizer != "bootstrap":
            self._foreign.warn(
                f"{self._optimizer} of dspy has asked no model: it saw nothing in the scores to learn from"
            )
        for program in others:
            self._judging.whole(self.state(program), search.selection)
        return self.state(best)

    def _mipro(self, model: Any) -> tuple[Any, list[Any]]:
        return self._miprov2(model, _WithoutDemos, 0)

    def _mipro_demos(self, model: Any) -> tuple[Any, list[Any]]:
        return self._miprov2(model, MIPROv2, self._search.params["max_bootstrapped_demos"])

    def _miprov2(self, model: Any, optimizer_class: Any, most_demos: int) -> tuple[Any, list[Any]]:
        params, seed = self._search.params, self._search.seed
        judges = self._examples(self._search.selection)
        count = max(2, params["num_candidates"])
        optimizer = optimizer_class(
            metric=_score, prompt_model=model, task_model=model, auto=None, num_candidates=count, seed=seed,
            num_threads=1, init_temperature=params["init_temperature"], max_bootstrapped_demos=most_demos,
            max_labeled_demos=0, track_stats=False,
        )  # fmt: skip
        trials = optimizer._set_num_trials_from_num_candidates(self._start, not most_demos, count)
        best = optimizer.compile(
            self._start, trainset=self._examples("train"), valset=judges, seed=seed, minibatch=len(judges) > 50,
            minibatch_size=min(params["minibatch_size"], len(judges)), fewshot_aware_proposer=most_demos > 0,
            num_trials=params["num_trials"] or trials,
        )  # fmt: skip
        return best, []

    def _bootstrap(self, model: Any) -> tuple[Any, list[Any]]:
        optimizer = BootstrapFewShot(
            metric=_score, max_bootstrapped_demos=self._search.params["max_bootstrapped_demos"], max_labeled_demos=0
        )
        found = optimizer.compile(self._start, trainset=self._examples("train"))
        return found, [found]

    def _copro(self, model: Any) -> tuple[Any, list[Any]]:
        params = self._search.params
        optimizer = COPRO(
            prompt_model=model, metric=_score, breadth=params["breadth"], depth=params["depth"],
            init_temperature=params["init_temperature"],
        )  # fmt: skip
        judges = self._examples(self._search.selection)
        return optimizer.compile(self._start, trainset=judges, eval_kwargs={"num_threads": 1}), []

    def _simba(self, model: Any) -> tuple[Any, list[Any]]:
        params, train = self._search.params, self._examples("train")
        optimizer = SIMBA(
            metric=_scored, bsize=min(params["bsize"], len(train)), num_candidates=max(2, params["num_candidates"]),
            max_steps=params["max_steps"], max_demos=0, prompt_model=model, num_threads=1,
        )  # fmt: skip
        best = optimizer.compile(self._start, trainset=train, seed=self._search.seed)
        return best, [candidate["program"] for candidate in best.candidate_programs]

    def _gepa(self, model: Any) -> tuple[Any, list[Any]]:
        params = self._search.params
        calls = params["max_metric_calls"] or (MANY if params["auto"] == "budget" else 0)
        names = ("reflection_minibatch_size", "candidate_selection_strategy", "component_selector", "use_merge")
        optimizer = GEPA(
            metric=_scored, auto=None if calls else params["auto"], max_metric_calls=calls or None, reflection_lm=model,
            num_threads=1, seed=self._search.seed, failure_score=0.0, perfect_score=1.0,
            skip_perfect_score=self._foreign.bounds is not None, warn_on_score_mismatch=False,
            **{name: params[name] for name in names},
        )  # fmt: skip
        judges = self._examples(self._search.selection)
        return optimizer.compile(self._start, trainset=self._examples("train"), valset=judges), []

    def _examples(self, split: str) -> list[Any]:
        """What dspy, and with it the model, sees of the examples: the query, and never the reference."""
        found = []
        for index, example in enumerate(getattr(self._search.problem, split)):
            query = "" if example.query is None else clipped(str(example.query))
            fields = dspy.Example(task=self._task, query=query, place=f"{split} {index}")
            found.append(fields.with_inputs("task", "query", "place"))
        return found

    def forward(self, program: Program, task: str, query: str, place: str) -> Any:
        """One example: its score, and a trace in which each predictor had its part."""
        split, _, index = place.partition(" ")
        rollout = self._judging.one(self._texts(program), split, int(index))
        demo = self._demo(rollout, split, int(index))
        better = "higher" if self._search.problem.direction == "maximize" else "lower"
        feedback = f"Score: {rollout.score:.10g} ({better} is better). {rollout.feedback}"
        trace = dspy.settings.trace
        if trace is not None:
            for name, predictor in program.named_predictors():
                if demo is not None and name == self._demo_parameter:
                    shown = {"task": task, "query": demo.query}
                    trace.append((predictor, shown, dspy.Prediction(response=demo.response)))
                elif self._demo_parameter is None:
                    trace.append((predictor, {"task": task, "query": query}, dspy.Prediction(response=NOT_SHOWN)))
        return dspy.Prediction(
            response=NOT_SHOWN, score=self._judging.scaled(rollout), feedback=feedback, is_demo=demo is not None
        )

    def _demo(self, rollout: Rollout, split: str, index: int) -> demos.Demo | None:
        """The demo that `rollout` is; None if its score is too low, or its example has no text as query or answer."""
        if self._demo_parameter is None or split != "train" or rollout.failed or rollout.response is None:
            return None
        query = text_of(self._search.problem.train[index].query)
        if query is None or self._judging.scaled(rollout) < self._search.params["metric_threshold"]:
            return None
        self._found_demos = True
        return demos.Demo(query, rollout.response)

    def state(self, program: Any) -> State | None:
        """The state that `program` is; None if it is none."""
        return self._judging.read(self._texts(program))

    def _texts(self, program: Any) -> dict[str, str]:
        """Each parameter of `program` as text: its instruction, or the start's value as it was before dspy tidied it,
        and its demos behind that."""
        texts: dict[str, str] = {}
        for name, predictor in program.named_predictors():
            text = self._text(predictor)
            text = self._foreign.start[name] if self._known.get(text) == name else text
            texts[name] = demos.write(text, [demos.Demo(demo.query, demo.response) for demo in predictor.demos])
        return texts

    @staticmethod
    def _text(predictor: Any) -> str:
        return str(predictor.signature.instructions)

    def ask(self, messages: Any, request: Mapping[str, Any]) -> str:
        """One answer; an unusable one is empty, which dspy cannot read."""
        self._judging.flush()
        self._calls += 1
        slot = Slot(self._judging.step, self._optimizer, self._calls)
        return self._foreign.ask(messages, slot, otherwise="", **request)


class _WithoutDemos(MIPROv2):  # type: ignore[misc]
    """Bootstraps no demos: they would cost evaluations, and there is no place for them."""

    def _bootstrap_fewshot_examples(self, *args: Any, **kwargs: Any) -> None:
        return None


def _score(example: Any, prediction: Any, trace: Any = None) -> float:
    """The score of `prediction`; given a trace, which bootstrapping does, whether it is a demo."""
    return float(prediction.is_demo if trace is not None else prediction.score)


def _scored(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    return dspy.Prediction(score=pred.score, feedback=pred.feedback)
