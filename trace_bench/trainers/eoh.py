"""EoH: evolution of heuristics, in which a population holds programs together with the thoughts behind them."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Costs, Param, Search, Slot, Step
from trace_bench.trainers.common_params import bound
from trace_bench.trainers.programs import ATTEMPTS, REQUESTS, ProgramSearch, Shown, failure

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

TASKS = {
    "i1": "Design a program for this task.",
    "e1": "Design a program that is as different as possible from those above.",
    "e2": "Find the idea that the programs above have in common. Design a program that builds on this idea and differs "
    "from them in other parts.",
    "m1": "Design a modified version of the program above that performs better.",
    "m2": "Find the parameters that matter most in the program above, and design a version with other values.",
    "m3": "Find the parts of the program above that may fit the known instances too closely. Design a simpler version "
    "that works on other instances as well.",
}
"""Request of each prompt strategy."""
EXPLORATION = ("e1", "e2")
"""Strategies that show several programs; the others show one."""
OPERATORS = ("e1", "e2", "m1", "m2", "m3")


class EoH:
    """Evolves a population of programs. Each member is a program with the *thought* behind it, one sentence of the
    model.

    Tasks must have one trainable parameter, which is code.

    ### Prompt strategies
    | strategy | shows | asks for |
    |---|---|---|
    | `i1` | nothing | a program |
    | `e1` | `parents` programs | one that is as different as possible |
    | `e2` | `parents` programs | another one with their common idea |
    | `m1` | one program | a version that performs better |
    | `m2` | one program | other parameter settings |
    | `m3` | one program | a simpler version, without parts that fit known instances too closely |

    Programs are shown with their thoughts and scores. Parents are drawn with probability proportional to
    `1 / (r + n)`: `r` is the rank in the population, 1 for the best, and `n` is its size. Of equal scores the older
    program ranks first.

    ### What a step does
    1. **Create.** The first step asks for `population_size` programs by `i1`. Each later step is a generation. Every
       strategy of `operators`, in their order, is used `population_size` times. Parents are from the population at the
       start of the generation.
    2. **Evaluate.** A new program is judged on all examples of the selection split. It is rejected if it fails on one,
       or if its score equals the score of a member of the population or of an earlier program of the generation.
    3. **Survive.** The `population_size` programs with the highest scores stay, of equal scores the older ones. The
       event `search.step` lists them as `kept`.

    A step costs at most `5·N` calls and `5·N·v` evaluations for `N` programs, five strategies and `v` examples.

    ### Where it differs from the paper
    | paper, or the authors' implementation | here | why |
    |---|---|---|
    | the initial population is complete | each of its programs is tried three times; while the population is empty, the next step tries again | a model that writes no program must not be asked forever |
    | the code reduces the population after each strategy | after each generation, as in the paper | |
    | parents are drawn with replacement | without | |
    | the thought is in braces | before the code block | |
    | prompts of the code show no scores | show them | as in MCTS-AHD; the order of parents is drawn |
    | the code asks for `2·N` programs by `i1` | `N` | |
    | the code rounds scores to five digits | compares exact scores | |

    This was checked against a copy of the authors' code. `m3`, five parents and ten members were not checked against
    the paper. The task's initial program is step 0 and not a member: the paper starts from nothing. With an
    [objective](config.md#objective) of dominance, scores are its weighted sums.
    """  # noqa: E501

    name = "EoH"
    summary = "Evolves programs and the thoughts behind them with five prompt strategies."
    source = "Liu et al., Evolution of Heuristics, ICML 2024, arXiv:2401.02051"
    params: tuple[Param, ...] = (
        bound("num_steps", 5, "steps: the initial population, then one generation each"),
        Param("population_size", 10, int, "programs in the population, and uses of each strategy", minimum=1),
        Param("parents", 5, int, "programs shown by e1 and e2", minimum=1),
        Param("operators", list(OPERATORS), list, "strategies of a generation, in order"),
        *REQUESTS,
    )
    uses_llm = True
    uses_graph = False
    costs = Costs(first_step=("population_size",))
    only_programs = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        """Search for a program.

        Raises:
            StopTraining: passed on.
            TrainerError: `operators` names no strategy, or the problem has not exactly one trainable parameter, which
                is code.
        """
        operators = search.params["operators"]
        if unknown := [name for name in operators if name not in OPERATORS]:
            raise TrainerError(f"operators names {unknown[0]!r}; the strategies are {', '.join(OPERATORS)}.")
        if not operators:
            raise TrainerError(f"operators is empty; the strategies are {', '.join(OPERATORS)}.")
        yield from _EoH(search).run()


@dataclass(frozen=True)
class Member:
    """A program of the population with its thought. `score` is oriented."""

    candidate: Candidate
    thought: str
    source: str

    @property
    def score(self) -> float:
        """Mean over the selection split."""
        return self.candidate.mean


def survivors(members: Sequence[Member], size: int) -> list[Member]:
    """The `size` members with the highest scores, best first, of equal scores the older first."""
    return sorted(members, key=lambda member: (-member.score, member.candidate.created))[:size]


def drawn(ranked: Sequence[Member], count: int, chance: random.Random) -> list[Member]:
    """`count` different members, or all: each with probability proportional to ``1 / (rank + len(ranked))`` among those
    left, where the first of `ranked` has rank 1."""
    weights = {i: 1 / (i + 1 + len(ranked)) for i in range(len(ranked))}
    chosen: list[Member] = []
    while weights and len(chosen) < count:
        index = chance.choices(list(weights), list(weights.values()))[0]
        chosen.append(ranked[index])
        del weights[index]
    return chosen


class _EoH(ProgramSearch):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._chance = search.random("parents")
        self._members: list[Member] = []

    def run(self) -> Generator[Step, None, None]:
        step = 0
        while self.search.endless or step < self.params["num_steps"]:
            step += 1
            new: list[Member] = []
            if self._members:
                yield from self._generation(step, new)
            else:
                yield from self._initial(step, new)
            explored = [member.candidate.id for member in self._members]
            self._members = survivors([*self._members, *new], self.params["population_size"])
            kept = [member.candidate.id for member in self._members]
            self.tell(step, explored, [member.candidate.id for member in new], kept=kept)

    def _initial(self, step: int, new: list[Member]) -> Generator[Step, None, None]:
        for number in range(self.params["population_size"]):
            for attempt in range(ATTEMPTS):
                before = len(new)
                yield from self._create("i1", [], Slot(step, f"i1-{number}", attempt), new)
                if len(new) > before:
                    break

    def _generation(self, step: int, new: list[Member]) -> Generator[Step, None, None]:
        for operator in self.params["operators"]:
            for number in range(self.params["population_size"]):
                parents = drawn(self._members, self.params["parents"] if operator in EXPLORATION else 1, self._chance)
                yield from self._create(operator, parents, Slot(step, operator, number), new)

    def _create(
        self, operator: str, parents: Sequence[Member], slot: Slot, new: list[Member]
    ) -> Generator[Step, None, None]:
        """Ask for one program, and add it to `new` if it may join the population."""
        prompt = self.prompt(TASKS[operator], [Shown(p.source, p.thought, p.score) for p in parents])
        written = self.ask(prompt, slot, value=parents[-1].source if parents else "")
        if written is None:
            return
        child = self.add(written.source, slot, [p.candidate for p in parents] or [self.population.seed])
        if child is None:
            return
        rollouts = self.judge(child)
        same = [m.candidate.id for m in (*self._members, *new) if m.score == child.mean]
        why = failure(rollouts) or (f"scores as {same[0]} does" if same else "")
        yield self.line(slot, child, rollouts, not why, why or f"by {operator}", thought=written.description)
        if not why:
            new.append(Member(child, written.description, written.source))
