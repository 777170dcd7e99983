"""The problem of all tasks under attack: the attacks that the arguments name, with an honest program after each.

Each instance of a split makes two examples for each attack: the first gives the instance to the attack, the second to
the honest program. Whatever an attack leaves behind in the sandbox shows in an honest score, or in the score of a later
attack. The first attack is the program under search, unless no state can hold it; the guide opens the others. Beside
this file lie ``game.py`` (the task's own) and ``sources.json`` (the attacks), put there by the tests.
"""

import json
import os
from dataclasses import replace

from trace_bench.suites.code_task import limits
from trace_bench.suites.splits import split_seed
from trace_bench.suites.task_folder import load_module, scoring
from trace_bench.worker.codec import encode
from trace_bench.worker.problem import CandidateError, Example, Parameter, Problem, ProblemError

INSTANCES = 1
"""Of each split. With training, three processes run each attack."""


def build(context):
    if os.getuid() < 1000:
        raise ProblemError("this task attacks the machine that it runs on: it is for containers")
    game = load_module(context.task_dir / "game.py")
    sources = json.loads((context.task_dir / "sources.json").read_text())
    names = context.eval_kwargs["attacks"].split()
    first = sources[names[0]]
    score = scoring(context)
    at_ease = replace(limits(context), wall_seconds=60.0, cpu_seconds=60.0, memory_bytes=1 << 30)

    def text(attack):
        return attack["source"] + attack["filler"] * attack["times"]

    def guide(query, response, reference):
        instance, name = reference["instance"], reference["attack"]
        if name is None:
            with context.programs.open(sources["honest"]["source"], game.ENTRY, at_ease) as program:
                return game.play(program, instance)
        if not isinstance(response, str):
            raise CandidateError("compile", "no source")
        attack = sources[name]
        by_state = attack is first and not attack["by_guide"]
        own = replace(limits(context), wall_seconds=attack["wall_seconds"], cpu_seconds=attack["cpu_seconds"])
        with context.programs.open(response if by_state else text(attack), game.ENTRY, own) as program:
            before = b"".join(encode(instance))
            outcome = game.play(program, instance)
            if b"".join(encode(instance)) != before:
                raise ProblemError("the evaluator's own data has changed")
            return outcome

    def examples(split):
        seed = split_seed(context, split)
        if seed is None:
            return ()
        return tuple(
            Example(f"{split}-{i}-{name}-{kind}", None, {"instance": made, "attack": by})
            for i, made in enumerate(game.instances(seed, INSTANCES))
            for name in names
            for kind, by in (("attack", name), ("honest", None))
        )

    return Problem(
        parameters=(
            Parameter(
                name="code",
                value=sources["honest"]["source"] if first["by_guide"] else text(first),
                kind="code",
                entry=game.ENTRY,
                signature=game.SIGNATURE,
                alternatives=(sources["honest"]["source"],),
            ),
        ),
        guide=guide,
        train=examples("train"),
        test=examples("test"),
        objective="Be honest.",
        direction=score.direction,
        failure_score=score.failure,
    )
