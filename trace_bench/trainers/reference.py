"""Describes trainers and optimizers from their code alone: ``docs/reference/trainers.md`` and ``list-trainers``.

``python -m trace_bench.trainers.reference --write`` writes the page; ``--check`` says whether it is up to date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trace_bench.trainers.base import OtherThan, Param, Trainer
from trace_bench.trainers.names import ALIASES, PRESETS, UNAVAILABLE, other_names
from trace_bench.trainers.registry import load_trainers
from trace_bench.worker.unusable import KINDS

_HEAD = """# Trainers

<!-- Written by `python -m trace_bench.trainers.reference --write`, from the code. Change the code. -->

A trainer is the search algorithm around an optimizer and a guide. Its parameters go into `params` or
`params_variants` of the trainer's entry in the config. A parameter that is unknown, or has no effect beside the others,
is an error before any job starts. `also` marks other names of a parameter; other names of trainers are
[below](#other-names). `trace-bench trainers NAME` prints a section of this page.

**Equal terms.** Every trainer runs on one loop. The loop first scores the start on all examples of the *selection
split*: the validation data, or the training data of a task without validation data. This is step 0, candidate `seed`,
the same for each search and paid from the same budget.

Each evaluated candidate is a line of `state_history.jsonl`. The line has its parents, its score, the best score so far,
the spending so far (evaluations, model calls, tokens, cost, seconds), and whether the search continues from it and why.
The best score so far is the best mean over *all* examples of the selection split. Candidates with fewer examples do not
count for it. Runs of a candidate on minibatches, for the prompt of its children, count as evaluations. They are lines
only if a trainer's section says so. A state is evaluated on an example once and then costs nothing, in spite of a
section's costs ([known states](../design/budgets.md#evaluations)).

Budgets (`evaluations`, `calls`, `tokens`, `usd`, `seconds`) end any search within one step. With a budget, a search
without a number of steps continues until the budget ends ([budget](config.md#budget)).

**Words.** Scores in files and tables are in a task's natural units. Inside a search higher is always better; `priority`
and similar numbers in `state_history.jsonl` are such internal numbers. `s3.c0.p1` names a candidate by its place in the
search: step 3, explored candidate 0, proposal 1. *To explore* a candidate is to run it on a minibatch of training
examples, to send their feedback back through the graph once, and to write a prompt from it. *To judge* a candidate is
to score it without a graph. A candidate that fails on an example gets the task's failure score there, and the error is
the feedback.

**Reproducibility.** A search depends only on the job's seed, the model's answers and the task. It reads no clock, the
order of creation breaks ties, and each model call has a slot name. With `num_threads` the calls of one step overlap.
Graph work, evaluations and records stay in slot order. `num_threads` and `verbose` do not change results, with one
exception: with more than one thread, a budget can run out at another call of the step. A
[replay](../how-to/replay.md) uses the recorded stop.

**Bad answers** cost one proposal, never a job. Each is an event:

| event | meaning |
|---|---|
| `proposal.unusable` | nothing in the answer can be used; with the `reason` and its `kind` |
| `proposal.rejected` | a value has the wrong type or is out of bounds; the first of each variable is also a warning |
| `proposal.unknown_variables` | the answer names variables that do not exist |
| `proposal.terminate` | the model proposes no change |
| `proposal.dropped` | the state is `unchanged`, or a `duplicate` of the named candidate; it is not paid for again |
| `proposal.skipped` | no model call: no response depends on a trainable parameter, or (GEPA) all scores are the best |

A program that does not compile is a candidate that fails.

**Unusable answers.** An answer is unusable if nothing can be read from it, or if all its values are rejected. Its event
names the `kind`: KIND_LIST. An answer that ended at `max_tokens` is always `cut_off`. The events `summary.unusable` (a
summary of POLCA), `description.unusable` (a text about a program) and `judge.unusable` (feedback of `LLMJudge`) have
the same fields and also count. `results`, `show` and the report
[count them](../how-to/results.md#unusable-answers). Trainers of other packages read answers themselves, and their
events have only the kinds that the adapter can know. OpenTrace does not report why it ignores an answer, so only
answers without text and invalid values count there.
""".replace("KIND_LIST", ", ".join(f"`{kind}`" for kind in KINDS))


def described(trainer: type[Trainer] | None, name: str = "") -> dict[str, Any]:
    """What there is to know of a trainer, as JSON values; `name` is its id where it cannot be loaded."""
    if trainer is None:
        empty = {"summary": None, "source": None, "semantics": "", "layer": None, "uses_llm": None}
        return {"id": name, **empty, "uses_optimizer": None, "aliases": [], "params": []}
    return {
        "id": trainer.name,
        "summary": trainer.summary,
        "source": trainer.source,
        "semantics": inspect.getdoc(trainer) or "",
        "layer": getattr(trainer, "layer", None) or None,
        "uses_llm": trainer.uses_llm,
        "uses_optimizer": trainer.uses_graph,
        "aliases": list(other_names(trainer.name)),
        "params": [_param(p) for p in trainer.params],
    }


def _param(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "type": param.type.__name__,
        "default": param.default,
        "minimum": param.minimum,
        "maximum": param.maximum,
        "choices": None if param.choices is None else list(param.choices),
        "aliases": list(param.aliases),
        "when": {name: effective(values) for name, values in param.when.items()},
        "changes_results": param.changes_results,
        "doc": param.doc,
    }


def page() -> str:
    """The whole of ``docs/reference/trainers.md``."""
    from trace_bench.trainers.optimizers import DEFAULT_OPTIMIZER, OPTIMIZERS

    trainers = load_trainers()
    ours = {name: t for name, t in trainers.items() if t.__module__.startswith("trace_bench.")}
    parts = [_HEAD, "\n".join(_overview(ours.values()))]
    parts += ["\n".join(_section(trainer)) for trainer in ours.values()]
    parts.append("\n".join(_names()))
    head = [
        "## Optimizers",
        "The key `optimizer` of a trainer's entry in the config names one, and `optimizer_kwargs` has its arguments.",
        f"Unknown ones are errors. The default is `{DEFAULT_OPTIMIZER}`, the optimizer of the Trace paper's results.",
        "Every trace-opt has it. `OptoPrimeV2` and `OPROv2` are re-implemented here, and need no other trace-opt. A",
        "proposed value must have the parameter's type and be within its bounds. Nothing is rounded, clipped or",
        "reformatted. [The graph](../design/graph.md) lists the differences from trace-opt's handling, and their",
        "reasons. Trainers of OpenTrace itself have `optimizer_class` instead, with the classes of the copy's own",
        "`opto.optimizers`.",
    ]
    parts.append("\n".join(head))
    parts += ["\n".join([f"### {name}", *_optimizer_text(name), "", *_table(ps)]) for name, ps in OPTIMIZERS.items()]
    parts.append("\n".join(_guides()))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _guides() -> list[str]:
    from trace_bench.trainers.guides import GUIDES
    from trace_bench.trainers.judge import LLMJudge

    text = (inspect.getdoc(LLMJudge) or "").partition("\n\nArgs:")[0]
    return [
        "## Guides",
        "The key `guide` of a trainer's entry in the config names the author of the feedback for the optimizer, and",
        "`guide_kwargs` has its arguments. `default` is the task's own guide. A guide does not change scores.",
        "",
        "### LLMJudge",
        text,
        "",
        *_table(GUIDES["LLMJudge"]),
    ]


def _optimizer_text(name: str) -> list[str]:
    from trace_bench.trainers import optimizers

    info = optimizers.OPTIMIZER_INFOS[name]
    return [info.doc.rstrip("\n"), "", f"Source: {info.source}."]


def _overview(trainers: Iterable[type[Trainer]]) -> list[str]:
    lines = ["| trainer | asks a model | takes an optimizer | image layer | algorithm |", "|---|---|---|---|---|"]
    for trainer in trainers:
        layer = getattr(trainer, "layer", "")
        anchor = trainer.name.lower()
        lines.append(
            f"| [`{trainer.name}`](#{anchor}) | {_yes(trainer.uses_llm)} | {_yes(trainer.uses_graph)} "
            f"| {_code(layer)} | {trainer.summary} |"
        )
    return lines


def _section(trainer: type[Trainer]) -> list[str]:
    lines = [
        f"## {trainer.name}",
        inspect.getdoc(trainer) or trainer.summary,
        "",
        f"Source: {trainer.source}.",
        "",
    ]
    return [*lines, *(_table(trainer.params) if trainer.params else ["It takes no parameters."])]


def _table(params: Iterable[Param]) -> list[str]:
    lines = ["| parameter | default | meaning |", "|---|---|---|"]
    for param in params:
        also = f"; also {', '.join(f'`{alias}`' for alias in param.aliases)}" if param.aliases else ""
        unnamed = [f"`{choice}`" for choice in param.choices or () if f"`{choice}`" not in param.doc]
        choices = f": {', '.join(unnamed)}" if unnamed else ""
        beside = " and ".join(f"`{name}` {_words(values)}" for name, values in param.when.items())
        when = f"; only with {beside}" if beside else ""
        lines.append(f"| `{param.name}` | {_default(param.default)} | {param.doc}{choices}{when}{also} |")
    return lines


def _preset(alias: str) -> str:
    given = PRESETS.get(alias, {})
    return "".join(f", `{name}: {_shown(value)}`" for name, value in given.items())


def effective(values: tuple[Any, ...]) -> list[Any] | dict[str, list[Any]]:
    """The values of another parameter beside which one has an effect, as JSON; ``{"other_than": […]}`` where it is said
    by those beside which it has none."""
    return {"other_than": list(values)} if isinstance(values, OtherThan) else list(values)


def _words(values: tuple[Any, ...]) -> str:
    listed = " or ".join(f"`{_shown(value)}`" for value in values)
    return f"other than {listed}" if isinstance(values, OtherThan) else listed


def _names() -> list[str]:
    lines = ["## Other names", "Names of OpenTrace and of the Trace-Bench prototype resolve to these trainers:", ""]
    rows = (f"| `{alias}` | `{name}`{_preset(alias)} |" for alias, name in ALIASES.items())
    lines += ["| name | trainer |", "|---|---|", *rows, ""]
    lines += ["These are not available:", "", "| name | reason |", "|---|---|"]
    return [*lines, *(f"| `{name}` | {reason} |" for name, reason in UNAVAILABLE.items())]


def _default(value: object) -> str:
    return "empty" if value in ("", None) else f"`{_shown(value)}`"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main(arguments: list[str]) -> int:
    """``--write`` or ``--check``."""
    target = Path(__file__).parents[2] / "docs" / "reference" / "trainers.md"
    if arguments == ["--write"]:
        target.write_text(page(), encoding="utf-8")
        return 0
    if target.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{target} differs from the code; run python -m trace_bench.trainers.reference --write\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
