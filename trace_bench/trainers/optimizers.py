"""The optimizers that a trainer may be given, and the arguments each of them takes. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import OtherThan, Param

DEFAULT_OPTIMIZER = "OptoPrime"

_MAX_TOKENS = Param("max_tokens", 4096, int, "token limit of an answer", minimum=1)
_MAX_TOKENS_V2 = Param("max_tokens", 8192, int, "token limit of an answer", minimum=1)
_OBJECTIVE = Param("objective", "", str, "instruction in place of the problem's objective; empty: the problem's")
_TEMPERATURE = Param(
    "temperature",
    None,
    float,
    "sampling temperature of each call; null: the model's own",
    minimum=0.0,
    maximum=2.0,
)
_ANCESTORS = Param(
    "memory_size",
    0,
    int,
    "past (variables, feedback) pairs of a candidate's ancestors in the prompt",
    minimum=0,
)
_ORDER = "choice of pairs: `score`, the best ones, best last; `time`, the latest ones, oldest first"
_MAX_VALUE_CHARS = Param(
    "max_value_chars",
    2000,
    int,
    "longest value in the prompt, others are clipped; trainable variables are never clipped",
    minimum=1,
)


@dataclass(frozen=True)
class OptimizerInfo:
    """An optimizer, as the host lists it.

    Attributes:
        source: paper or page that it follows.
        entry: ``module:Class`` of what the proposer drives (`trace_bench.trainers.proposer.Optimizer`).
        doc: its section of ``docs/reference/trainers.md``, in Markdown.
    """

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    entry: str
    doc: str


_INFOS = (
    OptimizerInfo(
        name="OptoPrime",
        summary="Shows the graph as a pseudo-program; one call, answered in JSON.",
        source="Cheng, Nie, Swaminathan: Trace is the Next AutoDiff, arXiv:2406.16218; trace-opt 0.1.3.8",
        params=(_ANCESTORS, _MAX_TOKENS, _OBJECTIVE, _TEMPERATURE),
        entry="trace_bench.trainers.optimizer_optoprime:OptoPrime",
        doc="""\
The prompt shows the minimal graph from parameters to result as a pseudo-program, with the text of trace-opt 0.1.3.8:
instruction, code, documentation, variables, constraints, inputs, intermediate values, outputs and feedback. The model
answers `{"reasoning", "answer", "suggestion": {variable: value}}`. A proposal costs one call.
""",
    ),
    OptimizerInfo(
        name="OptoPrimeMulti",
        summary="Several answers to OptoPrime's prompt, at falling temperatures, of which one is chosen.",
        source="trace-opt 0.1.3.8, OptoPrimeMulti; its techniques from later versions of OpenTrace",
        params=(
            _ANCESTORS,
            _MAX_TOKENS,
            _OBJECTIVE,
            Param("num_responses", 5, int, "answers for one proposal; one is chosen", minimum=1),
            Param(
                "generation_technique",
                "temperature_variation",
                str,
                "addition to the prompt of a later call: `temperature_variation`, none; `self_refinement`, the "
                "previous answer, to improve; `iterative_alternatives`, all previous answers, to differ from",
                choices=("temperature_variation", "self_refinement", "iterative_alternatives"),
                when={"num_responses": OtherThan((1,))},
            ),
            Param(
                "selection_technique",
                "best_of_n",
                str,
                "choice: `best_of_n`, by the model, in one more call; `majority`, the most frequent state; `last`, "
                "the last usable answer",
                choices=("best_of_n", "majority", "last"),
                when={"num_responses": OtherThan((1,))},
            ),
            Param(
                "max_temperature",
                1.3,
                float,
                "sampling temperature of the first call, or of each with the other techniques",
                minimum=0.0,
                maximum=2.0,
            ),
            Param(
                "min_temperature",
                0.0,
                float,
                "sampling temperature of the last call; it falls evenly",
                minimum=0.0,
                maximum=2.0,
                when={"generation_technique": ("temperature_variation",)},
            ),
        ),
        entry="trace_bench.trainers.optimizer_optoprime:OptoPrimeMulti",
        doc="""\
Sends OptoPrime's prompt `num_responses` times for one proposal. With `temperature_variation` the `i`-th of `n` calls,
from `i = 0`, has the temperature `max - i * (max - min) / (n - 1)`. With the other techniques all calls have
`max_temperature`. Unusable answers are events and are left out. There is no choice if the usable ones propose fewer
than two different states. A proposal costs `num_responses` calls, and one more if the model chooses (at temperature 0).
Of equally frequent states the first proposed one is taken. If the model's choice cannot be read, the last one is taken.

| trace-opt 0.1.3.8 | here | why |
|---|---|---|
| takes the last answer, at the lowest temperature | `best_of_n`, or `last` | all answers are paid |
| never stores a `temperature_range` | sends `max_temperature` to `min_temperature` | |
| an error of a call becomes an `IndexError` | such errors are the gateway's; a bad answer is an event | |
""",
    ),
    OptimizerInfo(
        name="OPRO",
        summary="Shows the search's attempts with their results, and no graph; one call.",
        source="Yang et al.: Large Language Models as Optimizers, arXiv:2309.03409; trace-opt 0.1.3.8",
        params=(
            Param(
                "memory_size",
                20,
                int,
                "(variables, feedback) pairs of the search in the prompt, including the candidate's own",
                minimum=1,
            ),
            Param("memory_order", "score", str, _ORDER, choices=("score", "time")),
            _MAX_TOKENS,
            _OBJECTIVE,
            _TEMPERATURE,
        ),
        entry="trace_bench.trainers.optimizer_opro:OPRO",
        doc="""\
The prompt has the objective and pairs of variables and feedback, each with the minibatch's score, with the text of
trace-opt 0.1.3.8. Each time the search explores a candidate on a minibatch, it adds a pair, in that order. The explored
candidate is always the last pair. A variable without a proposed value keeps that candidate's value. Scores of different
minibatches are compared without correction. Of equal ones the later counts as the better. The answer is
`{"suggestion": {variable: value}}`. A proposal costs one call.

| trace-opt 0.1.3.8 | the paper | here |
|---|---|---|
| all pairs, in order of time | the 20 best, ascending | the `memory_size` best, or latest (`memory_order`) |
| pairs of one optimizer | all scored candidates | all explored candidates: others have no feedback |
| no types, no constraints | in the task's description | a list of both, as a value that breaks one is rejected |
""",
    ),
    OptimizerInfo(
        name="TextGrad",
        summary="Sends feedback back through the graph in words, a call for each edge, then rewrites each variable.",
        source="Yuksekgonul et al.: TextGrad, arXiv:2406.07496; trace-opt 0.1.3.8",
        params=(
            Param(
                "memory_size",
                0,
                int,
                "past values of a variable, from the candidate's ancestors, in the prompt for its new value (the "
                "paper's momentum)",
                minimum=0,
            ),
            _MAX_TOKENS,
            _OBJECTIVE,
            _TEMPERATURE,
        ),
        entry="trace_bench.trainers.optimizer_textgrad:TextGrad",
        doc="""\
Feedback enters at the response to each example, and goes back through the graph as text. For each edge towards a
variable, one call asks how the value at its lower end should change (a criticism). Another call merges several
criticisms of one intermediate value. At the end each variable with criticism is rewritten in one call that shows all of
it. The new value is between `<IMPROVED_VARIABLE>` tags. Prompts are those of trace-opt 0.1.3.8. A proposal costs
`E + M + V` calls for `E` edges, `M` intermediate values with several criticisms, and `V` variables. That is 2 for a
problem without an agent and a minibatch of one, and 11 for two operators in a row and a minibatch of three. Each call
is an attempt (`attempt=0, 1, …`) in the proposal's slot. A criticism without text is an event, and its edge is left
out.

| trace-opt 0.1.3.8 | here | why |
|---|---|---|
| asks about every edge | asks about edges with a variable below | other criticism is not used |
| joins the examples by one edge each | each starts with its own feedback | as in the paper; it saves calls |
| shows the first and last ten words of the variable to rewrite | shows it in full | it is replaced in full |
| never shows the objective | shows it, with the feedback and each variable | it has the task's rules |
| shows a criticism as a Python object | shows its text, up to 8000 characters | |
| casts values by `type(old)(new)` | checks them by the parameter's kind | `bool("False")` is true |
""",
    ),
    OptimizerInfo(
        name="OptoPrimeV2",
        summary="Shows the graph as a pseudo-program; one call, answered between tags instead of in JSON.",
        source="OpenTrace (experimental), OptoPrimeV2; the wording is our own",
        params=(_ANCESTORS, _MAX_TOKENS_V2, _OBJECTIVE, _TEMPERATURE, _MAX_VALUE_CHARS),
        entry="trace_bench.trainers.optimizer_tags:OptoPrimeV2",
        doc="""\
The prompt has the sections of OptoPrime's, with values between tags. The answer is also between tags:
`<reasoning>…</reasoning>`, then for each changed variable `<variable><name>…</name><value>…</value></variable>`. Code
needs no escaping, so fewer answers are lost than with JSON. A proposal costs one call. Entities are not resolved, and a
value ends at a `</value>` before `</variable>`. Empty lines around a value, spaces around a value of one line, and one
CDATA section are removed. `memory_size` and `max_value_chars` (there `initial_var_char_limit`) are as in OpenTrace.
Trainable variables are shown in full, as a rewrite would lose the clipped part.
""",
    ),
    OptimizerInfo(
        name="OPROv2",
        summary="Shows the solution, its feedback and past solutions, and no graph; answered between tags.",
        source="OpenTrace (experimental), OPROv2, after arXiv:2309.03409; the wording is our own",
        params=(
            Param(
                "memory_size",
                5,
                int,
                "past (variables, feedback) pairs of the search in the prompt, besides the candidate's own",
                minimum=0,
            ),
            Param("memory_order", "time", str, _ORDER, choices=("score", "time")),
            _MAX_TOKENS_V2,
            _OBJECTIVE,
            _TEMPERATURE,
            _MAX_VALUE_CHARS,
        ),
        entry="trace_bench.trainers.optimizer_tags:OPROv2",
        doc="""\
The prompt has an instruction, past solutions with their feedback, the candidate's variables in full, and its feedback.
The answer is as with OptoPrimeV2. Past solutions are from the whole search, as with OPRO: by default the latest five
pairs, as in OpenTrace. A proposal costs one call.
""",
    ),
)

OPTIMIZER_INFOS: Mapping[str, OptimizerInfo] = MappingProxyType({info.name: info for info in _INFOS})
"""Every available optimizer, by name."""

OPTIMIZERS: Mapping[str, tuple[Param, ...]] = MappingProxyType({info.name: info.params for info in _INFOS})
"""Name of each available optimizer to its arguments."""

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "OptoPrimeBatchOpt": "is not adapted",
    }
)
"""Names that configs of other frameworks use, with why they cannot be had here."""


def resolve_optimizer(name: str, kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The optimizer's name and all of its arguments, defaults filled in. An empty `name` is the default one.

    Raises:
        TrainerError: no such optimizer, no such argument, or an argument of the wrong type or out of bounds.
    """
    name = name or DEFAULT_OPTIMIZER
    available = ", ".join(OPTIMIZERS)
    if name not in OPTIMIZERS:
        why = UNAVAILABLE.get(name, "is not known")
        raise TrainerError(f"the optimizer {name!r} {why}. Available: {available}.")
    params = {param.name: param for param in OPTIMIZERS[name]}
    for key in kwargs:
        if key not in params:
            near = get_close_matches(key, params, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(params)}."
            raise TrainerError(f"the optimizer {name} takes no argument {key!r}. {hint}")
    resolved = {key: param.default for key, param in params.items()}
    for key, value in kwargs.items():
        resolved[key] = _checked(name, params[key], value)
    return name, resolved


def _checked(optimizer: str, param: Param, value: Any) -> Any:
    if value is None and param.default is None:
        return None
    if param.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    whose = f"{param.name} of the optimizer {optimizer} is {value!r}; give"
    if not isinstance(value, param.type) or (isinstance(value, bool) and param.type is not bool):
        raise TrainerError(f"{whose} a value of type {param.type.__name__}.")
    if param.minimum is not None and isinstance(value, int | float) and value < param.minimum:
        raise TrainerError(f"{whose} at least {param.minimum:g}.")
    if param.maximum is not None and isinstance(value, int | float) and value > param.maximum:
        raise TrainerError(f"{whose} at most {param.maximum:g}.")
    if param.choices is not None and value not in param.choices:
        raise TrainerError(f"{whose} one of {', '.join(map(str, param.choices))}.")
    return value
