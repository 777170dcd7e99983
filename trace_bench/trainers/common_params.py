"""Parameters that several trainers have, said once."""

from typing import Any

from trace_bench.trainers.base import Param

MANY = 10**9
"""Steps, for a framework that takes no other answer than a number: a budget ends the search before."""
UNTIL = "0: until a budget ends"


def bound(name: str, default: int, doc: str, *, aliases: tuple[str, ...] = (), **more: Any) -> Param:
    """A parameter that ends a search after so many steps; with 0 a budget does."""
    return Param(name, default, int, f"{doc}; {UNTIL}", minimum=0, aliases=aliases, endless=0, **more)


NUM_EPOCHS = Param(
    "num_epochs", 0, int, "also continue until this many passes over the training data", minimum=0, endless=0
)
NUM_THREADS = Param(
    "num_threads",
    1,
    int,
    "proposals requested at the same time",
    minimum=1,
    aliases=("threads",),
    changes_results=False,
)
VERBOSE = Param(
    "verbose",
    False,
    bool,
    "print each step to `stdout.log`",
    changes_results=False,
)
UCB_CONSTANT = Param(
    "ucb_exploration_constant",
    1.0,
    float,
    "weight of the exploration bonus, which scales with the spread of the means",
    minimum=0.0,
    aliases=("ucb_exploration_factor",),
    formerly=(1.0,),
)
