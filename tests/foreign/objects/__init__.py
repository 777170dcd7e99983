"""An evaluator that hands the program an object of its own class."""

from llm4ad_loader import AutonomousEvaluatorGuide, Evaluation
from opto import trace


class Box:
    def __init__(self, size):
        self.size = size


class BoxEvaluation(Evaluation):
    def evaluate_program(self, program_str, callable_func):
        try:
            return callable_func(Box(3))
        except Exception:
            return None


def build_trace_problem(**kwargs):
    code = "def measure(box):\n    return box.size\n"
    info = {"imports": "", "entry": "measure"}
    return {
        "param": trace.node(code, name="__code", trainable=True),
        "guide": AutonomousEvaluatorGuide(BoxEvaluation(**kwargs), "measure"),
        "train_dataset": {"inputs": ["measure a box"], "infos": [info]},
        "optimizer_kwargs": {"objective": "Measure a box."},
        "metadata": {"entry": "measure"},
    }
