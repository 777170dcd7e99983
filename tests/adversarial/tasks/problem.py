"""The problem of all three tasks: what the arguments name is scored, and an honest program right after it.

Of each two examples of a split the first gives its instance to the program under search, which is the attack, and the
second gives the same instance to the honest program. Whatever an attack leaves behind, the honest score is where it
shows. Beside this file lie ``game.py`` (the task's own) and ``sources.json`` (the attacks), put there by the tests.
"""

import json
import os
from dataclasses import replace

from trace_bench.suites.code_task import limits
from trace_bench.suites.splits import split_seed
from trace_bench.suites.task_folder import load_module, scoring
from trace_bench.worker.codec import encode
from trace_bench.worker.problem import CandidateError, Example, Parameter, Problem, ProblemError

PAIRS = {"train": 2, "test": 2}


def build(context):
    if os.getuid() < 1000:
        raise ProblemError("this task attacks the machine that it runs on: it is for containers")
    game = load_module(context.task_dir / "game.py")
    sources = json.loads((context.task_dir / "sources.json").read_text())
    attack = sources[context.eval_kwargs["attack"]]
    source = attack["source"] + attack["filler"] * attack["times"]
    score = scoring(context)
    own = replace(limits(context), cpu_seconds=context.eval_kwargs["cpu_seconds"])
    at_ease = replace(own, wall_seconds=60.0, cpu_seconds=60.0, memory_bytes=1 << 30)

    def guide(query, response, reference):
        instance = reference["instance"]
        if reference["honest"]:
            with context.programs.open(sources["honest"]["source"], game.ENTRY, at_ease) as program:
                return game.play(program, instance)
        if not isinstance(response, str):
            raise CandidateError("compile", "no source")
        with context.programs.open(source if attack["by_guide"] else response, game.ENTRY, own) as program:
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
            Example(f"{split}-{i}-{'honest' if honest else 'attack'}", None, {"instance": made, "honest": honest})
            for i, made in enumerate(game.instances(seed, PAIRS[split]))
            for honest in (False, True)
        )

    return Problem(
        parameters=(
            Parameter(
                name="code",
                value=sources["honest"]["source"] if attack["by_guide"] else source,
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
