"""FunSearch: islands of programs, and a model that continues a series of ever better versions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Slot, Step
from trace_bench.trainers.common_params import bound
from trace_bench.trainers.programs import ANSWER, REQUESTS, ProgramSearch, failure, renamed

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.funsearch_islands import Scored

ONE = "Below is the first version of a program for this task."
SEVERAL = "Below are {number} versions of a program for this task, from the worst to the best."
PROMPT = """{objective}

{below} Write the next one, `{next}`, which scores better. It cannot call an earlier one: only `{next}` and what you \
write with it will exist.

{versions}

The next version, to be written:

```python
{header}
```

{answer}"""


class FunSearch:
    """Searches for one program with islands of programs and prompts that show two of them as versions.

    Tasks must have one trainable parameter, which is code. The algorithm follows the paper's Methods and the authors'
    published implementation, with their numbers as defaults.

    ### The database
    There are `num_islands` islands. Each begins with the task's initial program. Programs of an island with the same
    *signature*, the scores on each example of the selection split, are a cluster. Its score is the mean.

    ### What a step does
    1. **Draw** an island, each equally likely. On it, draw `functions_per_prompt` clusters with replacement, or as many
       as it has if it has fewer. The probabilities are proportional to `exp(score / T)`, where
       `T = T0 (1 - (n mod N) / N)` for `n` programs on the island, `T0` is `cluster_sampling_temperature_init`, and `N`
       is `cluster_sampling_temperature_period`. From each cluster, draw a program with probability proportional to
       `exp(-(length - shortest) / (longest + 1e-6))`, lengths in characters. Scores are in the task's
       units, negated if lower is better. Choose `T0` by the difference of scores that matters.
    2. **Ask.** The prompt shows the programs from the worst to the best, with the task's function renamed to `f_v0`,
       `f_v1`, and asks for `f_v2`. It shows no scores and no feedback. `samples_per_prompt` answers are requested.
    3. **Judge** each new program on all examples of the selection split. A program that fails on an example is
       discarded (`accepted` is false). Others join the island of the prompt (`extra.island`).
    4. **Reset.** After every `reset_period` samples, the half of the islands whose best programs have the lowest scores
       is discarded. For each of them a surviving island is drawn, and its best program (of equal ones the oldest)
       begins the new island (event `funsearch.reset`).

    A step costs `s` calls and up to `s·v` evaluations for `s` samples and `v` examples. If the task has validation
    examples, training examples are not used. With an [objective](config.md#objective) of dominance, scores are its
    weighted sums.

    ### Where it differs from the paper
    | paper, or the authors' implementation | here | why |
    |---|---|---|
    | a model that continues code | a chat model is asked for the next version in a code block | |
    | the model writes only the body of one function | the whole program, with imports and helpers | |
    | a reset every four hours | after `reset_period` samples | |
    | samplers and evaluators run in parallel | one after the other | |
    | the score of a signature is the last test's in the code, a mean in the paper | the mean | |
    | a program that fails on some tests keeps its other scores in the code, is discarded in the paper | is discarded | |
    | a program that the island holds already is stored again | is dropped | a copy would make its cluster more likely |
    | a program of another island is evaluated again | joins with its known scores (event `proposal.known`) | |
    """  # noqa: E501

    name = "FunSearch"
    summary = "Keeps islands of programs, and asks for the next version after two of them."
    source = "Romera-Paredes et al., Nature 625, 2024, doi:10.1038/s41586-023-06924-6"
    params: tuple[Param, ...] = (
        bound("num_steps", 5, "steps: one prompt each"),
        Param("samples_per_prompt", 4, int, "answers to one prompt", minimum=1),
        Param("functions_per_prompt", 2, int, "programs that a prompt shows", minimum=1),
        Param("num_islands", 10, int, "islands", minimum=1),
        Param("reset_period", 400, int, "samples between resets of the worse islands; 0: never", minimum=0),
        Param(
            "cluster_sampling_temperature_init",
            0.1,
            float,
            "T0: temperature of the cluster draw at the start of a period, in the task's units of score",
            minimum=1e-9,
        ),
        Param(
            "cluster_sampling_temperature_period",
            30_000,
            int,
            "N: programs on an island until the temperature is 0",
            minimum=1,
        ),
        *REQUESTS,
    )
    uses_llm = True
    uses_graph = False
    costs = Costs(first_step=("samples_per_prompt",))
    only_programs = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        """Search for a program.

        Raises:
            StopTraining: passed on.
            TrainerError: the problem has not exactly one trainable parameter, which is code.
        """
        yield from _FunSearch(search).run()


class _FunSearch(ProgramSearch):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        # Imported here: the host imports this module to list trainers, and needs nothing of it.
        from trace_bench.trainers.funsearch_islands import Database, Scored

        params, start = self.params, self.population.seed
        initial = Scored(start.id, self.source(start), self.scores(search.start.rollouts))
        self._stored = {start.id: initial}
        self._candidates = {start.id: start}
        self._database = Database(
            initial,
            params["num_islands"],
            params["cluster_sampling_temperature_init"],
            params["cluster_sampling_temperature_period"],
            params["reset_period"],
            search.random("islands"),
        )

    def run(self) -> Generator[Step, None, None]:
        step = 0
        while self.search.endless or step < self.params["num_steps"]:
            step += 1
            island, shown = self._database.draw(self.params["functions_per_prompt"])
            yield from self._sample(step, island, shown)
            founders = self._database.sampled(self.params["samples_per_prompt"])
            if founders:
                told = {str(index): founder.id for index, founder in founders.items()}
                self.search.log.event("funsearch.reset", step=step, founders=told)

    def _sample(self, step: int, island: int, shown: Sequence[Scored]) -> Generator[Step, None, None]:
        """All samples of one prompt."""
        prompt, name = self._prompt(shown)
        parents = [self._candidates[one.id] for one in dict.fromkeys(shown)]
        children = []
        for proposal in range(self.params["samples_per_prompt"]):
            slot = Slot(step, f"i{island}", proposal)
            written = self.ask(prompt, slot, name=name, value=shown[-1].source)
            if written is None or self._known(written.source, slot, island):
                continue
            child = self.add(written.source, slot, parents)
            if child is None:
                continue
            children.append(child.id)
            yield self._judged(child, slot, island)
        self.tell(step, [one.id for one in parents], children, island=island)

    def _judged(self, child: Candidate, slot: Slot, island: int) -> Step:
        rollouts = self.judge(child)
        why = failure(rollouts)
        if not why:
            from trace_bench.trainers.funsearch_islands import Scored

            self._stored[child.id] = Scored(child.id, self.source(child), self.scores(rollouts))
            self._candidates[child.id] = child
            self._database.islands[island].add(self._stored[child.id])
        reason = f"{why}: discarded" if why else f"joins island {island}"
        return self.line(slot, child, rollouts, not why, reason, island=island)

    def _known(self, source: str, slot: Slot, island: int) -> bool:
        """Whether the program is a known one, which island `island` has not: it joins with its scores."""
        known = self.known(source)
        if known is None or known.id not in self._stored or source in self._database.islands[island]:
            return False
        self._database.islands[island].add(self._stored[known.id])
        self.search.log.event("proposal.known", slot=str(slot), same_as=known.id, island=island)
        return True

    def _prompt(self, shown: Sequence[Scored]) -> tuple[str, str]:
        """The prompt, and what it calls the function that is to be written."""
        versions = []
        for number, one in enumerate(shown):
            name = f"{self.entry}_v{number}"
            versions.append(f"`{name}`:\n\n```python\n{renamed(one.source, self.entry, name).rstrip()}\n```")
        name = f"{self.entry}_v{len(shown)}"
        signature = self.parameter.signature or f"def {self.entry}(...):"
        return PROMPT.format(
            objective=self.search.problem.objective,
            below=ONE if len(shown) == 1 else SEVERAL.format(number=len(shown)),
            next=name,
            versions="\n\n".join(versions),
            header=renamed(signature, self.entry, name).rstrip(),
            answer=ANSWER.format(entry=name),
        ), name
