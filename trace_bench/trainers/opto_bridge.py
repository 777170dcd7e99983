"""Runs a trainer of OpenTrace on our problems, as a trainer of ours.

What it is given: an agent whose parameters are nodes and whose answer is one operator of them, a guide, a dataset, an
optimizer of its own package, and a model. Answer and score of a candidate come from our evaluator, and every model call
goes through the gateway; so candidates run where they always do, and budgets count.

``train`` of OpenTrace returns when it is done, and tells of no steps. It therefore runs on a thread of its own, and one
of the two threads waits at any time: whatever it asks for is done on the thread of the search, in order.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import queue
import random
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from trace_bench.errors import ConfigError, TrainerError
from trace_bench.trainers import opto_scan
from trace_bench.trainers.base import Param, Rollout, Search, Slot, State, Step
from trace_bench.trainers.common_params import MANY

OPTIMIZER = Param("optimizer_class", "OptoPrime", str, "class of `opto.optimizers` that proposes")


class OptoTrainer:
    """A trainer of OpenTrace, by the name of its class.

    Its parameters are those of its `train` that have a plain default, and `optimizer_class`. Each state that it runs
    for the first time is a step, judged on the whole selection split there and then; a state that is run again on an
    example is not evaluated again. `num_threads` is 1, since its calls cannot be named by their place in the search.
    """

    name = "opto:"
    summary = "A trainer of OpenTrace, as it is in the copy that OPENTRACE names."
    source = "OpenTrace"
    params: tuple[Param, ...] = ()
    uses_llm = True
    uses_graph = False
    layer = "opentrace"
    executes_candidates = True
    found: opto_scan.Found

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the state of the agent once it is trained; None if it is none of the problem.

        Raises:
            StopTraining: passed on. TrainerError: OpenTrace cannot be imported, or its trainer fails.
        """
        return (yield from _Bridge(search, self.found).run())


def __getattr__(name: str) -> type[OptoTrainer]:
    """The trainer of OpenTrace with that class name."""
    if name.startswith("__"):
        raise AttributeError(name)
    place = opto_scan.location() or opto_scan.installed()
    found = opto_scan.trainers_of(opto_scan.files_of(place)).get(name)
    if found is None:
        raise AttributeError(f"the opto at {place} has no trainer {name}")
    if found.abstract:
        raise ConfigError(f"it is abstract (no {', '.join(found.abstract)} of its own); name a subclass of it")
    doc = f"Trainer `{name}` of OpenTrace ({found.module})."
    space = {"__doc__": doc, "name": opto_scan.PREFIX + name, "found": found, "params": (*found.params, OPTIMIZER),
             "summary": doc, "__module__": __name__}  # fmt: skip
    return type(name, (OptoTrainer,), space)


class Response(str):
    """What the agent answers: the score in words for people and prompts, and the rollout for the guide."""

    rollout: Rollout

    @classmethod
    def of(cls, rollout: Rollout) -> Response:
        response = cls(rollout.feedback if rollout.failed else f"score {rollout.score:.10g}")
        response.rollout = rollout
        return response


class _Bridge:
    def __init__(self, search: Search, found: opto_scan.Found) -> None:
        # Imported here: the host imports this module to list trainers.
        from trace_bench.trainers.candidates import Orientation
        from trace_bench.trainers.population import state_key

        self.search = search
        self.found = found
        self.orientation = Orientation.of(search.problem)
        self.asked: queue.Queue[tuple[Callable[[], Any], queue.Queue[tuple[bool, Any]]] | None] = queue.Queue()
        self.steps: list[Step] = []
        self.known: dict[Any, Sequence[Rollout]] = {state_key(search.start.state): search.start.rollouts}
        self.calls = 0
        self.rejected: set[str] = set()
        self.end: tuple[bool, Any] = (True, None)

    def run(self) -> Generator[Step, None, State | None]:
        train = self._prepared()
        thread = threading.Thread(target=self._trained, args=(train,), name="opto", daemon=True)
        thread.start()
        while (request := self.asked.get()) is not None:
            wanted, answer = request
            try:
                result = wanted()
                yield from self.steps
            except BaseException as error:
                # A budget that ends, mostly. The thread gets it too, so that it unwinds, and whatever it makes of it.
                answer.put((False, error))
                raise
            finally:
                self.steps = []
            answer.put((True, result))
        thread.join()
        ok, value = self.end
        if not ok:
            raise TrainerError(f"{self.found.name} of OpenTrace raised {type(value).__name__}: {value}") from value
        if value is not None:
            self._judge(value)
            yield from self.steps
        return value  # type: ignore[no-any-return]

    def _trained(self, train: Callable[[], State | None]) -> None:
        try:
            self.end = (True, train())
        except BaseException as error:
            self.end = (False, error)
        finally:
            self.asked.put(None)

    def on_search(self, wanted: Callable[[], Any]) -> Any:
        """Have `wanted` done on the thread of the search, and wait for what comes of it."""
        answer: queue.Queue[tuple[bool, Any]] = queue.Queue()
        self.asked.put((wanted, answer))
        ok, value = answer.get()
        if not ok:
            raise value
        return value

    def _prepared(self) -> Callable[[], State | None]:
        """Import what is needed, and make agent, guide, dataset, optimizer and trainer of it."""
        from trace_bench.worker.graph import clients_replaced

        problem, params = self.search.problem, dict(self.search.params)
        try:
            with clients_replaced(black=_unformatted(), **_progress_bars()):
                trace = importlib.import_module("opto.trace")
                optimizers = importlib.import_module("opto.optimizers")
                algorithm = getattr(importlib.import_module(self.found.module), self.found.name)
                guide = _guide(self)
            optimizer = getattr(optimizers, wanted := params.pop("optimizer_class"), None)
        except ImportError as error:
            raise TrainerError(f"{self.found.module} of OpenTrace cannot be imported: {error}") from error
        if optimizer is None:
            raise TrainerError(f"opto.optimizers has no {wanted}; name one that it has as optimizer_class")
        with contextlib.suppress(AttributeError):  # what prompts name is counted from here
            importlib.import_module("opto.trace.nodes").GRAPH.clear()
        agent = _agent(trace, self)
        model = _Model(self, agent)
        proposing = optimizer(agent.parameters(), llm=model, **_taken(optimizer, {"objective": problem.objective}))
        offered = {"agent": agent, "optimizer": proposing, "num_threads": 1, "logger": _Quiet()}
        try:
            trainer = algorithm(**_taken_along(algorithm, "__init__", offered))
        except Exception as error:
            raise TrainerError(f"{self.found.name} of OpenTrace raised {type(error).__name__}: {error}") from error
        if self.search.endless:
            params |= {p.name: MANY for p in self.found.params if p.endless is not None}
        given: dict[str, Any] = {name: value for name, value in params.items() if value is not None}
        given |= _taken_along(algorithm, "train", {"num_threads": 1, "verbose": False, "validate_guide": guide})
        split = "validate" if problem.validate else "train"
        held_out = dict.fromkeys(opto_scan.HELD_OUT, _dataset(split, len(getattr(problem, split))))
        given |= _taken_along(algorithm, "train", held_out)

        _seed(self.search.seed)

        def train() -> State | None:
            trainer.train(guide=guide, train_dataset=_dataset("train", len(problem.train)), **given)
            return self.state_of(getattr(trainer, "agent", agent))[0]

        return train

    def state_of(self, agent: Any) -> tuple[State | None, str]:
        """What the nodes of `agent` hold as a state of the problem; or None, and why it is none."""
        from trace_bench.trainers.answers import Unusable, cast

        state = dict(self.search.start.state)
        for parameter in self.search.problem.trainable:
            try:
                state[parameter.name] = cast(parameter, agent.nodes[parameter.name].data, self.search.reader)
            except Unusable as why:
                return None, f"{parameter.name}: {why}"
        return state, ""

    def respond(self, agent: Any, split: str, index: int) -> Response:
        """The answer of `agent` on one example, its rollout with it."""
        return self.on_search(lambda: self._respond(agent, split, index))  # type: ignore[no-any-return]

    def _respond(self, agent: Any, split: str, index: int) -> Response:
        from trace_bench.trainers.population import state_key

        search = self.search
        state, why = self.state_of(agent)
        if state is None:
            example = getattr(search.problem, split)[index]
            if why not in self.rejected:
                self.rejected.add(why)
                search.log.event("proposal.rejected", reason=why)
                search.log.event("proposal.unusable", kind="invalid_value", reason=why)
            return Response.of(Rollout(example.id, search.problem.failure_score, why, failed=True))
        new = state_key(state) not in self.known
        rollouts = self._judge(state)
        if new and split == search.selection:
            return Response.of(rollouts[index])
        return Response.of(search.evaluate(state, [index], split)[0])

    def _judge(self, state: State) -> Sequence[Rollout]:
        """The rollouts of `state` on all of the selection split, which is a step if it is new."""
        from trace_bench.trainers.population import state_key

        search, number = self.search, len(self.known)
        if (key := state_key(state)) not in self.known:
            rollouts = tuple(search.evaluate(state, search.examples(search.selection), search.selection))
            self.known[key] = rollouts
            self.steps.append(Step(number, f"s{number}", (), state, rollouts, search.selection))
        return self.known[key]

    def chat(self, messages: list[dict[str, str]], agent: Any, request: Mapping[str, Any]) -> Mapping[str, Any]:
        from trace_bench.trainers.answer_reading import unusable
        from trace_bench.trainers.answers import Unusable, Variable, content

        def ask() -> Mapping[str, Any]:
            variables = [
                Variable(agent.nodes[p.name].py_name, p, agent.nodes[p.name].data).header()
                for p in self.search.problem.trainable
            ]
            slot = Slot(self.calls, "opto")
            self.calls += 1
            response = self.search.chat(messages, slot=slot, variables=variables, **request)
            answer = ""
            try:
                answer = content(response)
            except Unusable as why:  # OpenTrace goes on without a proposal
                kind, fields = unusable(slot, why, response)
                self.search.log.event(kind, **fields)
            return response if self.search.reader == 1 else _saying(response, answer)

        return self.on_search(ask)  # type: ignore[no-any-return]


def _saying(response: Mapping[str, Any], answer: str) -> Mapping[str, Any]:
    """`response` with `answer` as the only text of its message."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": str(answer)}}
    return {**response, "choices": [choice]}


class _Model:
    """What optimizers of OpenTrace call: ``llm(messages=…)`` and ``llm.create(messages=…)``."""

    def __init__(self, bridge: _Bridge, agent: Any) -> None:
        self._bridge = bridge
        self._agent = agent

    def __call__(self, messages: Any, **request: Any) -> Any:
        plain = [{"role": str(m["role"]), "content": str(m["content"])} for m in messages]
        known: dict[str, Any] = {
            name: request[name] for name in ("max_tokens", "response_format", "temperature") if name in request
        }
        return _attributes(self._bridge.chat(plain, self._agent, known))

    create = __call__

    def __deepcopy__(self, memo: Any) -> _Model:
        return self


class _Guide:
    """The scores of the problem's guide, the higher the better, as OpenTrace asks for them."""

    def __init__(self, bridge: _Bridge) -> None:
        self._bridge = bridge

    def __call__(self, task: Any, response: Any, info: Any = None, **kwargs: Any) -> tuple[float, str]:
        return self.get_feedback(task, response, info, **kwargs)

    def get_feedback(self, query: Any, response: Any, reference: Any = None, **kwargs: Any) -> tuple[float, str]:
        rollout = getattr(response, "rollout", None)
        if rollout is None:
            return self._bridge.orientation.oriented(self._bridge.search.problem.failure_score), str(response)
        return self._bridge.orientation.oriented(rollout.score), rollout.feedback

    def metric(self, query: Any, response: Any, reference: Any = None, **kwargs: Any) -> float:
        return self.get_feedback(query, response, reference, **kwargs)[0]

    def __deepcopy__(self, memo: Any) -> _Guide:
        return self


def _guide(bridge: _Bridge) -> _Guide:
    """A guide that is also a `Guide` of OpenTrace where the copy has that class: some trainers check for it."""
    try:
        base = importlib.import_module("opto.trainer.guide").Guide
    except (ModuleNotFoundError, AttributeError):
        return _Guide(bridge)
    return type("BridgeGuide", (_Guide, base), {})(bridge)  # type: ignore[no-any-return]


class _Quiet:
    """A logger that keeps nothing: steps are the history."""

    def log(self, *args: Any, **kwargs: Any) -> None: ...


def _agent(trace: Any, bridge: _Bridge) -> Any:
    """A module of OpenTrace with one node for each trainable parameter, whose answer is one operator of them all."""
    problem = bridge.search.problem

    class Agent(trace.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.nodes = {
                p.name: trace.node(bridge.search.start.state[p.name], name=p.name, trainable=True,
                                   **_taken(trace.node, {"description": p.description or p.signature or None}))
                for p in problem.trainable
            }  # fmt: skip

        def parameters(self) -> list[Any]:
            return list(self.nodes.values())

        def parameters_dict(self) -> dict[str, Any]:
            return dict(self.nodes)

        def forward(self, query: Any) -> Any:
            split, _, index = str(getattr(query, "data", query)).partition(":")

            def respond(query: Any, **values: Any) -> Any:
                return bridge.respond(self, split, int(index))

            respond.__name__ = respond.__qualname__ = "evaluate"
            description = "[evaluate] Runs the candidate on one example and scores it."
            operator = trace.bundle(description=description, allow_external_dependencies=True,
                                    catch_execution_error=False)(respond)  # fmt: skip
            return operator(query, **self.nodes)

    return Agent()


def _unformatted() -> ModuleType:
    """In place of black, through which optimizers of OpenTrace send every text with "def" in it: it stays as it is."""
    black: Any = ModuleType("black")
    black.format_str = lambda source, **options: source
    black.FileMode = black.Mode = lambda **options: None
    return black  # type: ignore[no-any-return]


def _progress_bars() -> dict[str, ModuleType]:
    """In place of tqdm, which images lack: iterates and gathers as tqdm does, and draws nothing."""
    bars: Any = ModuleType("tqdm")
    bars.tqdm = bars.trange = lambda items=(), *args, **options: items
    concurrent: Any = ModuleType("tqdm.asyncio")

    import asyncio  # not at the top: the worker's start is to stay short

    async def gather(*tasks: Any, **options: Any) -> list[Any]:
        return list(await asyncio.gather(*tasks))

    concurrent.tqdm_asyncio = SimpleNamespace(gather=gather)
    bars.asyncio = concurrent
    return {"tqdm": bars, "tqdm.asyncio": concurrent}


def _seed(seed: int) -> None:
    """Seed the generators of the process, from which trainers of OpenTrace draw."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def _dataset(split: str, count: int) -> dict[str, list[str]]:
    names = [f"{split}:{index}" for index in range(count)]
    return {"inputs": names, "infos": list(names)}


def _taken(function: Any, offered: Mapping[str, Any]) -> dict[str, Any]:
    """What of `offered` the arguments of `function` have by name."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in offered.items() if name in known}


def _taken_along(algorithm: type, method: str, offered: Mapping[str, Any]) -> dict[str, Any]:
    """What of `offered` the method of `algorithm` takes, or that of a base to which it hands on its arguments."""
    taken: dict[str, Any] = {}
    for function in [vars(base)[method] for base in algorithm.__mro__[:-1] if method in vars(base)]:
        taken |= _taken(function, offered)
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        if not {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
            break
    return taken


def _attributes(value: Any) -> Any:
    """A response as the clients of providers give it: with attributes."""
    if isinstance(value, Mapping):
        return SimpleNamespace(**{str(name): _attributes(item) for name, item in value.items()})
    return [_attributes(item) for item in value] if isinstance(value, list) else value
