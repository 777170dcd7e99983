"""Fixed agent code that asks the model with a client of its own, which knows of no slots: twice the same, each time."""

import json
import urllib.request
from pathlib import Path

from trace_bench.worker.problem import Parameter, Problem, examples


def relay():
    """The port that listens here, which is the phase's relay."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (port,) = [int(f[1].split(":")[1], 16) for f in lines if f[3] == "0A"]
    return port


def post(text):
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{relay()}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def liking(x, query):
    """How much the model likes a number: read from the ids of two answers to the same question."""
    ids = [post(f"{query}: how about {x:.3f}?")["id"] for _ in range(2)]
    return sum(int(i[-4:], 16) / 65536 for i in ids) - abs(x - 3.0)


def agent(ops, query):
    return ops.apply(liking, ops.param("x"), query)


def build(context):
    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=lambda query, response, reference: (float(response), "off by some"),
        agent=agent,
        train=examples(["a", "b"]),
        validate=examples(["c", "d"]),
        objective="Find the number.",
        direction="maximize",
        failure_score=-100.0,
    )
