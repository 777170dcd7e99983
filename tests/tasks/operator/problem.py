"""The operator's source is a parameter: what a model proposes for it must not run where the trainer runs."""

import os

from trace_bench.worker.problem import Parameter, Problem, examples

ASK = "import os\ndef who(x):\n    return [os.getuid(), os.getpid(), {}]\n"


def agent(ops, query):
    return ops.call("who", query)


def guide(query, response, reference):
    uid, pid, number = response
    print("OPERATOR", uid, pid, os.getuid(), os.getpid(), number)
    return float(number), "larger is better"


def build(context):
    return Problem(
        parameters=(
            Parameter("who", ASK.format(1), "code", entry="who", alternatives=(ASK.format(2), ASK.format(3)),
                      signature="def who(x):"),
        ),
        guide=guide,
        agent=agent,
        train=examples(["a", "b"]),
        objective="Say who you are.",
        direction="maximize",
        failure_score=-100.0,
    )  # fmt: skip
