"""An agent that asks the model to repeat a word: its prompt is the trainable text, and may hold examples."""

import json
import os
import urllib.request

from trace_bench.worker.problem import Example, Parameter, Problem


def answer(prompt, query):
    """The model's answer to `query`."""
    text = f"{prompt}\n\nQuery: {query}\nResponse:"
    body = json.dumps({"model": os.environ["TRACE_BENCH_MODEL"], "messages": [{"role": "user", "content": text}]})
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def guide(query, response, reference):
    return (1.0, "right") if response == reference else (0.0, "wrong")


def repeated(*words):
    return tuple(Example(word, f"Repeat {word}", f"{word} {word}") for word in words)


def build(context):
    return Problem(
        parameters=(Parameter("prompt", "Say it.", "text"),),
        guide=guide,
        agent=lambda ops, query: ops.apply(answer, ops.param("prompt"), query),
        train=repeated("sun", "moon"),
        validate=repeated("tree", "moss"),
        test=repeated("rain") if context.test_seed is not None else (),
        objective="Find the prompt.",
        direction="maximize",
        failure_score=0.0,
        score_range=(0.0, 1.0),
    )
