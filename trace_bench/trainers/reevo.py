"""ReEvo: reflective evolution, in which a model compares programs before it writes the next one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Slot, Step
from trace_bench.trainers.common_params import bound
from trace_bench.trainers.programs import ANSWER, REQUESTS, ProgramSearch, failure

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

INITIAL = """{objective}

A program for this task:

```python
{seed}
```

Write a program that scores better. {answer}"""
SHORT_TERM = """{objective}

Two programs for this task. The second scores better than the first.

Worse program:

```python
{worse}
```

Better program:

```python
{better}
```

Give hints for better programs, drawn from what differs between these two, in less than 20 words. Answer with the \
hints alone."""
CROSSOVER = """{objective}

Worse program:

```python
{worse}
```

Better program:

```python
{better}
```

Reflection:

{reflection}

Write a program that scores better than both, according to the reflection. {answer}"""
LONG_TERM = """{objective}

Your reflection so far on how to design programs for this task:

{prior}

New insights:

{insights}

Give constructive hints for better programs, from the reflection so far and the new insights, in less than 50 words. \
Answer with the hints alone."""
MUTATION = """{objective}

Reflection:

{reflection}

The best program so far:

```python
{elite}
```

Write a mutated version of it that scores better, according to the reflection. {answer}"""
NONE = "(none)"


class ReEvo:
    """Searches for one program by evolution. The model reflects on the reasons that make a program better.

    Tasks must have one trainable parameter, which is code. The algorithm follows the paper (section 4) and the authors'
    published implementation (`reevo.py`), with their numbers as defaults.

    ### What a step does
    The first step asks for `init_size` programs better than the task's initial one, which the prompt shows. Each later
    step is an iteration:

    1. **Select** `population_size` pairs, each of them evenly from all pairs of programs with different scores. They are
       drawn from the population and the *elite*, the best program so far, the initial one included. Programs that failed
       on an example are not parents (`accepted` is false).
    2. **Reflect and cross over**, for each pair: the model sees the worse and the better program, in this order, and
       gives hints (*short-term reflection*). It sees both again with the hints, and writes a program.
    3. **Reflect on all of them.** The model merges the hints of this step into its *long-term reflection* (event
       `reevo.reflection`).
    4. **Mutate the elite.** The model sees the elite and the long-term reflection, and writes a program. It does so
       `mutation_rate` times `population_size` times (rounded down). The elite is then the best of all, offspring of
       this step included.

    The offspring of the step are the next population. Prompts show no scores.

    An iteration costs `2n + m + 1` calls and up to `(n + m)·v` evaluations for `n` pairs, `m` mutations and `v` examples.
    The default of `num_steps` asks for 105 programs; the paper has a budget of 100.

    ### Where it differs from the paper
    | paper, or the authors' implementation | here | why |
    |---|---|---|
    | ends if no pair has different scores | continues with mutation and the unchanged reflection | |
    | an initial program that fails ends the search | is shown, and is not a parent | |
    | evaluates a known program again | it joins with its known score (event `proposal.known`), once a step | |
    | the temperature for the initial population is 0.3 higher | is that of all calls | not every model takes it |
    | a task's expert knowledge begins the long-term reflection | it begins empty | |
    | functions are named `_v0`, `_v1`, `_v2` | by the task's name | |
    | a separate model can reflect | the job's model does | |
    | prompts for black-box problems, and parents that beat the initial program there | those of the others | |

    With an [objective](config.md#objective) of dominance, scores are its weighted sums.
    """  # noqa: E501

    name = "ReEvo"
    summary = "Evolves programs, with reflections on pairs of them and on the whole search."
    source = "Ye et al., NeurIPS 2024, arXiv:2402.01145"
    params: tuple[Param, ...] = (
        bound("num_steps", 6, "steps: the initial population, then one iteration each"),
        Param("init_size", 30, int, "programs requested in the first step", minimum=1),
        Param("population_size", 10, int, "pairs of parents in an iteration", minimum=1),
        Param("mutation_rate", 0.5, float, "mutations of the elite for each pair of parents", minimum=0.0),
        *REQUESTS,
    )
    uses_llm = True
    uses_graph = False
    costs = Costs(first_step=("init_size",))
    only_programs = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        """Search for a program.

        Raises:
            StopTraining: passed on.
            TrainerError: the problem has not exactly one trainable parameter, which is code.
        """
        yield from _ReEvo(search).run()


def pairs(candidates: Sequence[Candidate]) -> list[tuple[Candidate, Candidate]]:
    """All (worse, better) of `candidates` with different oriented means."""
    found = [sorted(pair, key=lambda one: one.mean) for pair in combinations(candidates, 2)]
    return [(worse, better) for worse, better in found if worse.mean != better.mean]


class _ReEvo(ProgramSearch):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._chance = search.random("pairs")
        self._members: list[Candidate] = []
        self._sound: dict[str, Candidate] = {}
        self._elite: Candidate | None = None
        self._reflection = ""
        if not failure(search.start.rollouts):
            self._keep(self.population.seed)

    def run(self) -> Generator[Step, None, None]:
        step = 0
        while self.search.endless or step < self.params["num_steps"]:
            step += 1
            before = self._members
            self._members = []
            yield from self._initial(step) if step == 1 else self._iteration(step, before)
            explored, children = [one.id for one in before], [one.id for one in self._members]
            self.tell(step, explored, children, elite=self._elite.id if self._elite else "")

    def _initial(self, step: int) -> Generator[Step, None, None]:
        seed = self.population.seed
        prompt = INITIAL.format(objective=self.statement, seed=self._shown(seed), answer=self._answer)
        for number in range(self.params["init_size"]):
            yield from self._offspring("initial", prompt, Slot(step, f"i{number}"), [seed])

    def _iteration(self, step: int, members: Sequence[Candidate]) -> Generator[Step, None, None]:
        elite = [self._elite] if self._elite and self._elite not in members else []
        possible = pairs([*elite, *members])
        number = self.params["population_size"]
        drawn = [self._chance.choice(possible) for _ in range(number)] if possible else []
        insights = []
        for place, (worse, better) in enumerate(drawn):
            both = {"objective": self.statement, "worse": self._shown(worse), "better": self._shown(better)}
            slot = Slot(step, f"x{place}")
            insight = self.say(SHORT_TERM.format(**both), Slot(step, f"x{place}", 0, 1))
            insights += [insight] if insight else []
            prompt = CROSSOVER.format(**both, reflection=insight or NONE, answer=self._answer)
            yield from self._offspring("crossover", prompt, slot, [better, worse])
        if insights:
            self._reflect(step, insights)
        for place in range(int(self.params["mutation_rate"] * number)):
            best = self._elite or self.population.seed
            prompt = MUTATION.format(
                objective=self.statement,
                reflection=self._reflection or NONE,
                elite=self._shown(best),
                answer=self._answer,
            )
            yield from self._offspring("mutation", prompt, Slot(step, f"m{place}"), [best])

    def _reflect(self, step: int, insights: Sequence[str]) -> None:
        """Merge `insights` into the long-term reflection, which stays as it is where the model says nothing."""
        prompt = LONG_TERM.format(
            objective=self.statement, prior=self._reflection or NONE, insights="\n".join(insights)
        )
        self._reflection = self.say(prompt, Slot(step, "reflection")) or self._reflection
        self.search.log.event("reevo.reflection", step=step, reflection=self._reflection)

    def _offspring(
        self, operator: str, prompt: str, slot: Slot, parents: Sequence[Candidate]
    ) -> Generator[Step, None, None]:
        """Ask for a program, which joins the population unless it fails."""
        written = self.ask(prompt, slot, value=self.source(parents[0]))
        if written is None:
            return
        known = self.known(written.source)
        if known is not None and known.id in self._sound and known not in self._members:
            self._members.append(known)
            self.search.log.event("proposal.known", slot=str(slot), same_as=known.id)
            return
        child = self.add(written.source, slot, parents)
        if child is None:
            return
        rollouts = self.judge(child)
        why = failure(rollouts)
        yield self.line(slot, child, rollouts, not why, why or f"by {operator}", operator=operator)
        if not why:
            self._keep(child)
            self._members.append(child)

    def _keep(self, candidate: Candidate) -> None:
        self._sound[candidate.id] = candidate
        if self._elite is None or candidate.mean > self._elite.mean:
            self._elite = candidate

    def _shown(self, candidate: Candidate) -> str:
        return self.source(candidate).rstrip()

    @property
    def _answer(self) -> str:
        return ANSWER.format(entry=self.entry)
