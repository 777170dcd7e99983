"""Order a list of numbers: how many neighbours stand in order.

Written to the interface of folders that were converted from LLM4AD.
"""

import matplotlib.pyplot as plt
import numpy as np
from llm4ad_loader import Evaluation

from .get_instance import GetData

ENTRY_NAME = "arrange"
FUNCTION_SIGNATURE = "def arrange(numbers: np.ndarray) -> list:"
IMPORT_HEADER = "import numpy as np\nfrom typing import List"
TASK_DESCRIPTION = "Write `arrange(numbers)`, which returns the numbers in ascending order."
OBJECTIVE_TEXT = "You are optimizing `arrange`. The score is the share of neighbours in order."
TEMPLATE_FUNCTION = '''
def arrange(numbers: np.ndarray) -> List[float]:
    """Returns the numbers in ascending order."""
    return list(numbers)
'''
EVAL_CLASS_NAME = "ArrangeEvaluation"
EVAL_KWARGS = {"timeout_seconds": 5, "n_instance": 3}


class ArrangeEvaluation(Evaluation):
    def __init__(self, timeout_seconds=5, n_instance=3, problem_size=8, **kwargs):
        super().__init__(template_program=TEMPLATE_FUNCTION, timeout_seconds=timeout_seconds, **kwargs)
        self._data = GetData(n_instance, problem_size).generate_instances()

    def evaluate_program(self, program_str, callable_func):
        shares = []
        for numbers in self._data:
            answer = np.array(callable_func(numbers=numbers))
            if sorted(answer) != sorted(numbers):
                raise ValueError("the answer is no order of the numbers")
            shares.append(np.mean(answer[:-1] <= answer[1:]))
        return np.mean(shares)

    def plot(self, answer):
        plt.plot(answer)
        plt.show()


def build_trace_problem(**override_eval_kwargs) -> dict:
    from llm4ad_loader import AutonomousEvaluatorGuide
    from opto import trace

    kwargs = {**EVAL_KWARGS, **override_eval_kwargs}
    evaluator = globals()[EVAL_CLASS_NAME](**kwargs)
    param = trace.node(TEMPLATE_FUNCTION.strip(), name="__code", description=FUNCTION_SIGNATURE, trainable=True)
    guide = AutonomousEvaluatorGuide(evaluator, ENTRY_NAME, IMPORT_HEADER, timeout=kwargs["timeout_seconds"])
    return {
        "param": param,
        "guide": guide,
        "train_dataset": {"inputs": [TASK_DESCRIPTION], "infos": [{"imports": IMPORT_HEADER, "entry": ENTRY_NAME}]},
        "optimizer_kwargs": {"objective": OBJECTIVE_TEXT, "memory_size": 10},
        "metadata": {"entry": ENTRY_NAME, "benchmark": "LLM4AD"},
    }


if __name__ == "__main__":
    exec("print('only as a script')")
