"""Sizes and seeds of a task's splits: the one place that says where an instance's randomness comes from.

Train and validation data follow from the job's seed. Test data follow from the test seed alone, which only
the score phase gets, once training is over: nothing that training sees tells anything about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

from trace_bench.suites.forms import FORM, has_forms
from trace_bench.worker.problem import BuildContext, ProblemError

Split = Literal["train", "validate", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

COMMON_EVAL_KWARGS = frozenset({"num_train", "num_validate", "num_test", "timeout_seconds", "objective_mode"})
"""Arguments that every code task takes, the last if it declares metrics. An evaluator never sees them."""
STANDARD = "standard"
"""The size of instances whose arguments are the defaults of ``[eval_kwargs]``."""


def size_of(context: BuildContext, split: Split) -> str:
    """The size of the instances of `split`: ``small``, ``standard`` or ``large``."""
    size = context.eval_kwargs.get("size", STANDARD)
    return str(context.eval_kwargs.get("test_size") or size) if split == "test" else str(size)


def settings_of(context: BuildContext, split: Split) -> dict[str, Any]:
    """The arguments that the evaluator makes the instances of `split` with.

    With ``test_size``, test instances have the arguments of that size, whatever the config says of training.
    """
    sizes: Mapping[str, Mapping[str, Any]] = context.spec.get("sizes", {})
    hidden = COMMON_EVAL_KWARGS | ({"size", "test_size"} if sizes else frozenset())
    hidden |= {FORM} if has_forms(context.spec) else frozenset()
    settings = {name: value for name, value in context.eval_kwargs.items() if name not in hidden}
    if split == "test" and sizes and context.eval_kwargs.get("test_size"):
        standard = {name: argument.get("default") for name, argument in context.spec["eval_kwargs"].items()}
        asked = sizes.get(size_of(context, split), {})
        shaped = {name for size in sizes.values() for name in size} - {"n_instance"}
        settings |= {name: asked.get(name, standard[name]) for name in shaped}
    return settings


def split_seed(context: BuildContext, split: Split) -> int | None:
    """A 63-bit seed for the data of `split`; None where the split is held out from this phase.

    Splits and seeds are separated by SHA-256, so that two splits of one seed, or one split of two seeds,
    share nothing.
    """
    seed = context.test_seed if split == "test" else context.seed
    if seed is None:
        return None
    digest = hashlib.sha256(f"trace-bench/split/{split}/{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def split_sizes(context: BuildContext, defaults: Mapping[str, int] | None = None) -> dict[Split, int]:
    """The number of examples of each split: ``num_<split>`` of the config, else `defaults`, else ``[splits]``
    of the spec.

    Raises:
        ProblemError: a size is negative, or there is nothing to train on.
    """
    declared: Mapping[str, int] = context.spec.get("splits", {})
    sizes: dict[Split, int] = {}
    for split in SPLITS:
        size = context.eval_kwargs.get(f"num_{split}")
        if size is None:
            size = (defaults or {}).get(split, declared.get(split, 1 if split == "train" else 0))
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ProblemError(f"num_{split} is {size!r}; give a whole number of examples, 0 or more")
        sizes[split] = size
    if sizes["train"] == 0:
        raise ProblemError("num_train is 0, which leaves nothing to train on; give at least 1")
    return sizes
