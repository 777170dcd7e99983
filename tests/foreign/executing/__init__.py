"""Double a number, judged by a guide that executes the program itself."""

from opto.trace import node
from opto.trainer.guide import Guide


class Doubles(Guide):
    def get_feedback(self, query, response, reference=None, **kwargs):
        names = {}
        exec(response, names)
        answers = [names["double"](x) for x in range(5)]
        right = sum(answer == 2 * x for x, answer in enumerate(answers))
        return right / 5, f"{right} of 5 are right"


def build_trace_problem(goal: int = 2, **kwargs):
    source = "def double(x):\n    return x\n"
    return {
        "param": node(source, name="program", trainable=True),
        "guide": Doubles(),
        "train_dataset": {"inputs": ["double a number"], "infos": [None]},
        "optimizer_kwargs": {"objective": "Make double(x) return twice x.", "memory_size": 5},
        "metadata": {"entry": "double"},
    }
