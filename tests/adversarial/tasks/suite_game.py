"""A shipped task as a game for attacks: its own evaluator, on small instances, with its template as the honest program.

Beside this file lie the task's ``evaluator.py``, ``spec.toml`` and ``template.py``, and ``settings.json``.
"""

import json
import tomllib
from pathlib import Path

import numpy as np

from trace_bench.suites.judge import Judge
from trace_bench.suites.task_folder import load_module

HERE = Path(__file__).parent
SPEC = tomllib.loads((HERE / "spec.toml").read_text())
SETTINGS = json.loads((HERE / "settings.json").read_text())
ENTRY, SIGNATURE = SPEC["entry"], SPEC["signature"]
HONEST = (HERE / "template.py").read_text().replace(f"def {ENTRY}(", "def honest(")
EVALUATOR = load_module(HERE / "evaluator.py")
JUDGE = Judge(EVALUATOR, SPEC)


def instances(seed, count):
    return [EVALUATOR.instance(np.random.default_rng([seed, i]), **SETTINGS) for i in range(count)]


def play(program, instance):
    score, remark, _ = JUDGE.evaluate(program, instance)
    return score, remark


def honest_score(instance):
    """What the template comes to, in this process."""
    program = getattr(load_module(HERE / "template.py"), ENTRY)
    return play(program, instance)[0]


def failure(instance):
    """What a failure on this very instance is worth."""
    return float(EVALUATOR.worst(instance))
