"""The package openevolve on one search: its loop, with our evaluator and model. See `openevolve_trainer`."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from trace_bench.trainers.adapters import sections
from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.adapters.foreign import Foreign
from trace_bench.trainers.adapters.imports import importing
from trace_bench.trainers.answers import Unusable, content
from trace_bench.trainers.base import Rollout, Search, Slot, State
from trace_bench.trainers.candidates import Minibatches
from trace_bench.trainers.common_params import MANY
from trace_bench.trainers.population import state_key
from trace_bench.worker.graph_nodes import clipped

# numpy serves the package's novelty check by embeddings, which is off.
with importing("openevolve", clients=("openai",), missing=("numpy",)):
    from openevolve import database, embedding, process_parallel  # noqa: F401  # the database imports embedding later
    from openevolve.config import Config, DatabaseConfig, PromptConfig
    from openevolve.prompt import sampler
    from openevolve.prompt.templates import TemplateManager

T = TypeVar("T")
_ERRORS = {
    "No valid diffs": "no_program",
    "No valid code": "no_program",
    "Generated code exceeds": "invalid_value",
}
"""How the package's errors about answers begin, and their kinds."""


class Run:
    """Callable once, on the framework's thread: the whole search. It stands for the package's executor, evaluator and
    model."""

    def __init__(self, search: Search, bridge: Bridge) -> None:
        self._search = search
        self._foreign = Foreign(search, bridge)
        self._problem = search.problem
        self._iteration = 0
        self._parent = "seed"
        self._program = ""
        """What was asked about last."""
        self._states: dict[str, State] = {}
        self._metrics: dict[str, dict[str, float]] = {}
        self._feedback: dict[str, str] = {}
        """By program, as the metrics."""
        count, size = len(search.problem.train), search.params["train_batch_size"]
        self._response: Mapping[str, Any] | None = None
        self._why: Unusable | None = None
        """Of this iteration: the answer, and why it cannot be used where we know it."""
        self._minibatches = Minibatches(count, min(size, count), search.seed) if size else None

    def __call__(self) -> State:
        config = self._config()
        self._log()
        # The package draws from these modules' generators, and names copies of programs by random ids.
        database.random = sampler.random = self._search.random("openevolve")
        database.uuid = _Ids()
        programs = database.ProgramDatabase(config.database)
        start = sections.write(self._problem, self._foreign.start)
        seed = self._score(start, dict(self._search.start.state), list(self._search.start.rollouts))
        programs.add(database.Program(id="seed", code=start, language=config.language, metrics=seed))
        programs.store_artifacts("seed", {"feedback": self._feedback[start]})
        process_parallel._worker_config = config
        process_parallel._worker_evaluator = self
        process_parallel._worker_llm_ensemble = self
        process_parallel._worker_prompt_sampler = sampler.PromptSampler(config.prompt)
        loop = _Controller(config, programs, self)
        best = asyncio.run(loop.run_evolution(1, self._search.params["iterations"] or MANY))
        return self._states[best.code]

    def _config(self) -> Config:
        params, problem = self._search.params, self._problem
        plain = sections.is_plain(problem)
        kind = problem.trainable[0].kind if plain else "text"
        task = [TemplateManager().get_template("system_message"), "The task:", problem.objective]
        task += [self._foreign.describe(p.name) for p in problem.trainable]
        if not plain:
            task.append(
                "The program is a text of sections. Keep the lines `#### NAME ####`; what follows is the value."
            )
        names = ("num_islands", "population_size", "archive_size", "feature_bins", "migration_interval",
                 "migration_rate", "exploration_ratio", "exploitation_ratio")  # fmt: skip
        return Config(
            language="python" if kind == "code" else "text",
            random_seed=None,
            diff_based_evolution=params["diff_based_evolution"],
            max_code_length=max(10000, 2 * len(sections.write(problem, self._foreign.start))),
            prompt=PromptConfig(
                system_message="\n\n".join(task),
                num_top_programs=params["num_top_programs"],
                num_diverse_programs=params["num_diverse_programs"],
            ),
            database=DatabaseConfig(random_seed=None, log_prompts=False, **{name: params[name] for name in names}),
        )

    def _log(self) -> None:
        logger = logging.getLogger("openevolve")
        logger.propagate = False
        verbose = self._search.params["verbose"]
        logger.handlers = [logging.StreamHandler(sys.stdout) if verbose else logging.NullHandler()]
        logger.setLevel(logging.INFO)

    # The package's process pool.

    def submit(self, function: Callable[..., Any], iteration: int, snapshot: Any, parent: str, *rest: Any) -> Any:
        """Run one iteration to its end, on a thread of its own since it starts event loops. Its program is named by its
        place."""
        self._iteration = iteration
        self._response, self._why = None, None
        self._parent = self._name_of(snapshot["programs"][parent]["code"])
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(function(iteration, snapshot, parent, *rest))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join()
        result = future.result()  # `Ended` goes on from here: what calls this catches an Exception only
        if result.error:
            self._foreign.unusable(
                self._slot, Unusable(str(result.error), self._kind(str(result.error))), self._response
            )
        else:
            result.child_program_dict["id"] = f"s{iteration}.p0"
        return future

    def _kind(self, error: str) -> str:
        """The kind of an answer that the package made `error` of; an error of its own is of none."""
        if self._why is not None:
            return self._why.kind
        return next((kind for begin, kind in _ERRORS.items() if error.startswith(begin)), "other")

    @property
    def _slot(self) -> Slot:
        return Slot(self._iteration, "program")

    # The package's model.

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]]) -> str:
        told = [{"role": "system", "content": system_message}, *messages]
        response = self._foreign.respond(told, self._slot, max_tokens=self._search.params["max_tokens"])
        self._response = response
        return self._noting(lambda: str(content(response)))

    def _noting(self, read: Callable[[], T]) -> T:
        """What `read` returns. What it raises is the iteration's error, of which `submit` tells."""
        try:
            return read()
        except Unusable as why:
            self._why = why
            raise

    # The package's evaluator.

    async def evaluate_program(self, program: str, _: str) -> Mapping[str, float]:
        """Metrics of `program`.

        Raises:
            Unusable: it is none; the package tells of it as of any failed iteration.
        """
        self._program = program
        state = self._noting(lambda: self._foreign.read(sections.read(self._problem, program)))
        same = next((known for known, other in self._states.items() if state_key(other) == state_key(state)), None)
        if same is not None:
            name = self._name_of(same)
            self._foreign.event("proposal.dropped", slot=str(self._slot), reason="duplicate", same_as=name)
            tables: tuple[dict[str, Any], ...] = (self._states, self._metrics, self._feedback)
            for table in tables:
                table[program] = table[same]
            return dict(self._metrics[program])
        rollouts = self._foreign.evaluate(state, self._search.selection)
        name = f"s{self._iteration}.p0"
        self._foreign.tell(self._iteration, name, (self._parent,), state, rollouts, self._search.selection)
        return self._score(program, state, rollouts)

    def get_pending_artifacts(self, _: str) -> dict[str, str]:
        return {"feedback": self._feedback[self._program]}

    def _score(self, program: str, state: State, rollouts: list[Rollout]) -> dict[str, float]:
        self._states[program] = state
        self._metrics[program] = {"combined_score": self._foreign.mean(rollouts)}
        shown: list[Rollout] = []
        if self._minibatches is not None:
            indices = self._minibatches.take()
            if self._search.selection == "train":
                shown = [rollouts[i] for i in indices]
            else:
                shown = self._foreign.evaluate(state, "train", indices)
        self._feedback[program] = "\n\n".join(clipped(rollout.feedback) for rollout in shown)
        return dict(self._metrics[program])

    def _name_of(self, program: str) -> str:
        return self._foreign.name(self._states[program]) or "seed"


class _Controller(process_parallel.ProcessParallelController):  # type: ignore[misc]
    """The package's loop, with an executor that is there already: `Run`."""

    def __init__(self, config: Config, programs: Any, executor: Run) -> None:
        self.config, self.database, self.executor = config, programs, executor
        self.evolution_tracer = self.island_selector = None
        self.shutdown_event = threading.Event()
        self.early_stopping_triggered = False
        self.num_workers = 1
        self.num_islands = config.database.num_islands


class _Ids:
    """Stands for the module `uuid`: ids in order."""

    def __init__(self) -> None:
        self._count = 0

    def uuid4(self) -> str:
        self._count += 1
        return f"copy{self._count}"
