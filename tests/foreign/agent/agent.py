"""Add two numbers up to a target: an agent with two nodes, and a guide of its own."""

from opto import trace
from opto.trainer.guide import Guide


class SumGuide(Guide):
    def get_feedback(self, query, response, reference=None, **kwargs):
        return -abs(response - reference), f"target {reference}"


@trace.model
class Sum:
    def __init__(self):
        self.a = trace.node(1.0, trainable=True)
        self.b = trace.node(1.0, trainable=True)

    def __call__(self, query):
        return self.combine(self.a, self.b)

    @trace.bundle()
    def combine(self, a, b):
        return a + b


def build_trace_problem(target: float = 3.0):
    data = {"inputs": [None, None], "infos": [target, target]}
    return {
        "param": Sum(),
        "guide": SumGuide(),
        "train_dataset": {"inputs": [None], "infos": [target]},
        "validate_dataset": data,
        "test_dataset": data,
        "optimizer_kwargs": [{"objective": "Make a + b the target."}],
        "metadata": {},
    }
