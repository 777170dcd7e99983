"""Parameters that several trainers have, said once."""

from trace_bench.trainers.base import Param

NUM_THREADS = Param(
    "num_threads",
    1,
    int,
    "proposals asked for at a time; results do not depend on it",
    minimum=1,
    aliases=("threads",),
    changes_results=False,
)
VERBOSE = Param(
    "verbose",
    False,
    bool,
    "print a line for each step to the job's stdout.log; results do not depend on it",
    changes_results=False,
)
UCB_CONSTANT = Param(
    "ucb_exploration_constant",
    0.3,
    float,
    "weight of the exploration bonus, which is scaled by the spread of the means",
    minimum=0.0,
    aliases=("ucb_exploration_factor",),
)
