"""What a search has to beat: no search at all, in two ways."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from trace_bench.trainers.base import Param, Search, Step


class RandomProposals:
    """Draws every parameter at random, from all of its range or of its known programs. No model is asked."""

    name = "random proposals"
    params: tuple[Param, ...] = ()
    uses_graph = False

    def search(self, search: Search) -> Generator[Step, None, None]:
        chance = search.random("proposals")
        step = 0
        while True:
            step += 1
            state = dict(search.start.state)
            for parameter in search.problem.trainable:
                state[parameter.name] = _drawn(chance, parameter)
            rollouts = search.evaluate(state, search.examples(search.selection), search.selection)
            yield Step(step, f"s{step}", ("seed",), state, tuple(rollouts), search.selection)


class BestOfN:
    """Asks the model about the start again and again, and keeps the best: what the model can do without a search."""

    name = "best of n"
    params: tuple[Param, ...] = ()
    uses_graph = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        from trace_bench.trainers.population import Population

        population = Population(search)
        minibatches = population.minibatches(1)
        step = 0
        while True:
            step += 1
            explored = population.explore(population.seed, minibatches.take())
            calls = population.calls(population.seed, explored, step, "c0", 2)
            with contextlib.closing(population.children(calls)) as children:
                for child in children:
                    yield population.step(step, child, population.judge(child))


def _drawn(chance: Any, parameter: Any) -> Any:
    if parameter.kind == "float":
        return chance.uniform(*parameter.bounds)
    if parameter.kind == "int":
        return chance.randint(int(parameter.bounds[0]), int(parameter.bounds[1]))
    return chance.choice([parameter.value, *parameter.alternatives])
