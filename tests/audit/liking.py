"""A task whose agent asks a model, in training and while it is scored, and which has held-out examples."""

from __future__ import annotations

from pathlib import Path

TASK = """\
title = "A number that the model likes"
statement = "Find the number that the model likes best."
interaction = "agent"
suite = "internal"

[score]
direction = "maximize"
failure = -100.0

[splits]
train = 1
validate = 2
test = 2
"""
PROBLEM = '''\
"""Asks by a client of its own, which knows of no slots: twice the same, each time."""

import json
import os
import random
import urllib.request
import zlib

from trace_bench.worker.problem import Example, Parameter, Problem

BONUS = 0.0


def ask(text):
    body = json.dumps({"model": os.environ["TRACE_BENCH_MODEL"], "messages": [{"role": "user", "content": text}]})
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["id"]


def liking(x, query):
    likes = sum(int(ask(f"{query}: how about {x:.3f}?")[-4:], 16) / 65536 for _ in range(2))
    return likes + zlib.crc32(query.encode()) / 2**32 - abs(x - 3.0) + BONUS


def asked(*queries):
    return tuple(Example(query, query) for query in queries)


def build(context):
    drawn = random.Random(context.test_seed)
    held_out = [f"held out {drawn.random():.6f}" for _ in range(2)] if context.test_seed is not None else []
    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=lambda query, response, reference: (float(response), "off by some"),
        agent=lambda ops, query: ops.apply(liking, ops.param("x"), query),
        train=asked("a"),
        validate=asked("c", "d"),
        test=asked(*held_out),
        objective="Find the number.",
        direction="maximize",
        failure_score=-100.0,
    )
'''


def write_task(root: Path) -> Path:
    """The folder of ``internal:liking`` below `root`."""
    folder = root / "liking"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TASK, encoding="utf-8")
    (folder / "problem.py").write_text(PROBLEM, encoding="utf-8")
    return folder
