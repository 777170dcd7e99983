"""What the searches that hold one state, or a few, have in common: parameters, samples, and judging on all examples."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import Param, Rollout, Search, Step
from trace_bench.trainers.common_params import bound

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

NUM_STEPS = bound("num_steps", 5, "steps: one minibatch each")
TRAIN_BATCH_SIZE = Param("train_batch_size", 1, int, "examples in a minibatch", minimum=1, aliases=("batch_size",))
EVAL_FREQUENCY = Param(
    "eval_frequency",
    1,
    int,
    "steps between judgements of the leading state on the whole selection split; 0: only at the end",
    minimum=0,
    aliases=("test_frequency",),
)


class Walk:
    """One search: its population, its minibatches, and the means of all states that were judged on everything.

    Means are oriented: higher is better.
    """

    def __init__(self, search: Search) -> None:
        # Imported here: the host imports this module to list trainers, and needs nothing of it.
        from trace_bench.trainers.population import Population

        self.search = search
        self.params = search.params
        self.population = Population(search)
        self.minibatches = self.population.minibatches(self.params["train_batch_size"])
        self.everything = tuple(search.examples(search.selection))
        self._ids = {example.id for example in getattr(search.problem, search.selection)}
        self._samples = search.random("validation")
        self._judged: dict[str, float] = {}
        self._note(self.population.seed, search.start.rollouts, search.start.split)

    def more(self, step: int) -> bool:
        """Whether there is another step after `step` of them."""
        left = step < self.params["num_steps"] or self.minibatches.epochs < self.params["num_epochs"]
        return bool(self.search.endless or left)

    def sample(self, size: int) -> tuple[int, ...]:
        """Examples of the selection split, a fresh draw without replacement; all of them for 0, or where there are no
        more than `size`."""
        if self.sample_is_all(size):
            return self.everything
        return tuple(sorted(self._samples.sample(self.everything, size)))

    def say_if_idle(self, size: int, name: str) -> None:
        """Warn where a given ``eval_frequency`` has no effect, for samples of `size` hold all examples anyway."""
        if self.sample_is_all(size) and self.params["eval_frequency"] != EVAL_FREQUENCY.default:
            self.search.log.warn(
                f"eval_frequency has no effect: {name} is {size} and there are {len(self.everything)} examples, "
                "so all that is scored is scored on all of them."
            )

    def sample_is_all(self, size: int) -> bool:
        """Whether a sample of `size` holds all examples of the selection split; 0 asks for all."""
        return size == 0 or size >= len(self.everything)

    def score(
        self, step: int, candidate: Candidate, sample: Sequence[int], reason: str
    ) -> Generator[Step, None, float]:
        """Mean of a candidate that the search goes on with anyway. What was judged on everything is not scored on
        everything again."""
        if tuple(sample) == self.everything and candidate.id in self._judged:
            return self._judged[candidate.id]
        rollouts = self.population.judge(candidate, sample)
        yield self.line(step, candidate, rollouts, accepted=True, reason=reason)
        return self.population.mean(rollouts)

    def judge(self, step: int, candidate: Candidate, reason: str) -> Generator[Step, None, float]:
        """Mean on all examples of the selection split, of which the best state is; scored once."""
        return (yield from self.score(step, candidate, self.everything, reason))

    def judge_now(self, step: int, candidate: Candidate) -> Generator[Step, None, None]:
        """`judge`, if ``eval_frequency`` says that it is time."""
        every = self.params["eval_frequency"]
        if every and step % every == 0:
            yield from self.judge(step, candidate, "leads, judged on all examples")

    def line(
        self, step: int, candidate: Candidate, rollouts: Sequence[Rollout], split: str | None = None, **told: Any
    ) -> Step:
        """What there is to yield; a mean over everything is remembered."""
        self._note(candidate, rollouts, split or self.search.selection)
        return self.population.step(step, candidate, rollouts, split, **told)

    def tell(
        self, step: int, explored: Sequence[Candidate], children: Sequence[Candidate], kept: Sequence[Candidate],
        **more: Any,
    ) -> None:  # fmt: skip
        """The event ``search.step``, and a line to read if ``verbose``."""
        best = max(self._judged, key=self._judged.__getitem__)  # of equal ones the first, as the saved best state is
        natural, known = self.population.orientation.oriented(self._judged[best]), len(self.population.known)
        self.search.log.event(
            "search.step", step=step, explored=[c.id for c in explored], children=[c.id for c in children],
            kept=[c.id for c in kept], best=best, best_mean=natural, known=known, **more,
        )  # fmt: skip
        if self.params["verbose"]:
            going = ", ".join(c.id for c in kept)
            print(f"step {step}: on with {going}; best {best} {natural:.6g}, {known} known", flush=True)  # noqa: T201

    def _note(self, candidate: Candidate, rollouts: Sequence[Rollout], split: str) -> None:
        if split == self.search.selection and self._ids <= {r.example_id for r in rollouts}:
            self._judged[candidate.id] = self.population.mean(rollouts)
