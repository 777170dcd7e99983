"""The prototype's import path of `evaluate_bundle` and `load_and_evaluate`."""

from trace_bench.integrations import evaluate_bundle, load_and_evaluate

__all__ = ["evaluate_bundle", "load_and_evaluate"]
