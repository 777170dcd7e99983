"""What holds for every task of the suite, on one or two instances of each.

What all instances of the standard size score is measured (`benchmarks.LLM4AD.pages`) and tested in
`test_llm4ad_best_known`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.suites.llm4ad.conftest import folders, task_of
from trace_bench.suites.forms import FORMS
from trace_bench.worker.codec import encode
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import Problem, Programs
from trace_bench.worker.training import Rollout

TASKS = sorted(task for task, folder in folders().items() if (folder / "programs").is_dir())


STATELESS = [task for task in TASKS if (c := task_of(task).spec.candidates) is not None and c.stateless is not None]
SHORT = ("llm4ad:optimization/tsp_construct", "llm4ad:optimization/qap_construct")
"""Of those, tasks whose fresh processes take seconds and no minute."""
SLICE = {"num_train": 1, "num_validate": 0}
DRAWS = {
    "llm4ad:online_bin_packing_local": 5,
    "llm4ad:optimization/bp_1d_construct": 8,
    "llm4ad:optimization/bp_2d_construct": 8,
    "llm4ad:optimization/co_bench/equitable_partitioning_problem_co_bench": 8,
    "llm4ad:optimization/co_bench/hybrid_reentrant_shop_scheduling_co_bench": 8,
    "llm4ad:optimization/co_bench/p_median_uncapacitated_co_bench": 8,
    "llm4ad:optimization/co_bench/packing_unequal_circles_co_bench": 8,
    "llm4ad:optimization/co_bench/packing_unequal_rectangles_and_squares_co_bench": 8,
    "llm4ad:optimization/online_bin_packing_2O": 5,
    "llm4ad:optimization/co_bench/resource_constrained_shortest_path_co_bench": 8,
    "llm4ad:optimization/set_cover_construct": 2,
    "llm4ad:optimization/tsp_gls_2O": 6,
}
"""Tasks on which one instance does not show the order of their programs, with how many do."""
STANDARD = {"llm4ad:optimization/co_bench/p_median_capacitated_co_bench"}
"""Tasks whose programs have another order on small instances."""
SINGLE = "single-instance"
"""Tag of a task whose one instance has no random data."""
LONG = ("constrained_guillotine_cutting_co_bench", "p_median_capacitated_co_bench")
"""Tasks whose reference program needs most of its time limit, and more than that on a busy machine."""
BuildTask = Callable[..., Problem]
every = pytest.mark.parametrize("task", TASKS)


def sliced(task: str) -> dict[str, Any]:
    """Arguments of one or two instances, small ones where the task has sizes."""
    size = {"size": "small"} if task_of(task).spec.sizes and task not in STANDARD else {}
    return SLICE | {"num_train": DRAWS.get(task, 1)} | size


def run(problem: Problem, task: str, name: str, programs: Programs) -> list[Rollout]:
    source = (folders()[task] / name).read_text(encoding="utf-8")
    return list(evaluate_state(problem, {"code": source}, problem.train, programs))


def means(problem: Problem, task: str, programs: Programs) -> dict[str, float]:
    """Mean score of each honest program of the task; none may fail."""
    candidates = task_of(task).spec.candidates
    assert candidates is not None and candidates.reference is not None
    found = {}
    for name in (candidates.template, candidates.reference, *candidates.worse):
        rollouts = run(problem, task, name, programs)
        assert not any(r.failed for r in rollouts), (name, [r.feedback for r in rollouts if r.failed])
        check_what_is_said(problem, task, name, rollouts)
        found[name] = mean(r.score for r in rollouts)
    return found


def check_what_is_said(problem: Problem, task: str, name: str, rollouts: list[Rollout]) -> None:
    judge = task_of(task).judge
    for rollout, example in zip(rollouts, problem.train, strict=True):
        assert f"Score {rollout.score:.10g}" in rollout.feedback and len(rollout.feedback) > 60, name
        assert not problem.better(judge.worst([example.reference]), rollout.score), f"{name}: worse than a failure"
        bound = judge.best([example.reference])
        assert bound is None or not problem.better(rollout.score, bound), f"{name}: {rollout.score} beats {bound}"
        share = rollout.metrics["normalised"]
        assert 0 <= share < 100 and (bound is None or judge.target(example.reference) != bound or share <= 1 + 1e-9)


def check_order(problem: Problem, task: str, programs: Programs) -> None:
    candidates = task_of(task).spec.candidates
    assert candidates is not None and candidates.reference is not None
    found = means(problem, task, programs)
    start = found[candidates.template]
    assert problem.better(found[candidates.reference], start), f"the reference is no better than the template: {found}"
    for name in candidates.worse:
        assert problem.better(start, found[name]), f"{name} is no worse than the template: {found}"


@every
def test_spec_says_what_a_reader_needs(task: str) -> None:
    spec = task_of(task).spec
    assert len(spec.statement) > 400 and "\\n" not in spec.statement and spec.title
    assert f"`{spec.entry}(" in spec.statement, "the statement names the entry point with its arguments"
    assert "minimized" in spec.statement or "maximized" in spec.statement
    assert spec.licence == "MIT" and len(spec.source) > 20 and spec.corrections
    assert spec.dependencies and spec.tags
    assert spec.template_seconds is not None and spec.template_seconds < 5
    assert spec.score.range is not None and "normalised" in spec.metrics and spec.metrics["normalised"].doc
    assert all(argument.doc for argument in spec.eval_kwargs.values())
    assert SINGLE in spec.tags or "n_instance" in spec.eval_kwargs
    candidates = spec.candidates
    assert candidates is not None and candidates.reference is not None and candidates.worse and candidates.broken


@every
def test_signature_and_programs_agree(task: str) -> None:
    one = task_of(task)
    assert one.spec.signature is not None and one.spec.candidates is not None
    wanted = ast.parse(one.spec.signature).body[0]
    assert isinstance(wanted, ast.FunctionDef) and wanted.name == one.spec.entry
    assert ast.get_docstring(wanted) and wanted.returns is not None
    assert all(argument.annotation is not None for argument in wanted.args.args), "every argument has its type"
    for name in (one.spec.candidates.template, *one.spec.candidates.proposals()):
        tree = ast.parse((one.folder / name).read_text(encoding="utf-8"))
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == one.spec.entry]
        if "broken" not in name:
            assert [a.arg for a in found[0].args.args] == [a.arg for a in wanted.args.args], name
            assert ast.get_docstring(found[0]), f"{name} says what it does"


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.slow if task.endswith(LONG) else ()) for task in TASKS]
)
def test_reference_beats_template_beats_worse(task: str, build_task: BuildTask, programs: Programs) -> None:
    check_order(build_task(task, **sliced(task)), task, programs)


def check_stateless(problem: Problem, task: str, programs: Programs) -> None:
    candidates = task_of(task).spec.candidates
    assert candidates is not None and candidates.stateless is not None
    rollouts = {name: run(problem, task, name, programs) for name in (candidates.template, candidates.stateless)}
    assert not any(r.failed for found in rollouts.values() for r in found), rollouts
    template, reference = (mean(r.score for r in found) for found in rollouts.values())
    assert problem.better(reference, template), f"{reference} is no better than the template, {template}"
    assert not any("better than the best known score" in r.feedback for r in rollouts[candidates.stateless])


@pytest.mark.parametrize("task", STATELESS)
def test_the_stateless_reference_has_nothing_to_remember_with(task: str) -> None:
    one = task_of(task)
    assert one.spec.candidates is not None and one.spec.candidates.stateless is not None
    tree = ast.parse((one.folder / one.spec.candidates.stateless).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
    values: list[ast.AST] = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        values += [*function.decorator_list, *function.args.defaults]
    fixed = (ast.Constant, ast.Tuple, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Name, ast.Lambda)
    entries = [entry for value in values for entry in (value.elts if isinstance(value, ast.List) else [value])]
    assert not [ast.unparse(entry) for entry in entries if not isinstance(entry, fixed)]


@pytest.mark.parametrize("task", SHORT)
def test_fresh_processes_score_as_one_does(task: str, build_task: BuildTask, programs: Programs) -> None:
    """So the tests below use one: fresh processes take minutes."""
    candidates = task_of(task).spec.candidates
    assert candidates is not None and candidates.stateless is not None
    forms = (build_task(task, seed=123, form=form, **sliced(task) | {"num_train": 1}) for form in FORMS)
    one, fresh = ([r.score for r in run(problem, task, candidates.stateless, programs)] for problem in forms)
    assert one == fresh


@pytest.mark.parametrize("task", STATELESS)
def test_the_stateless_reference_beats_the_template(task: str, build_task: BuildTask, programs: Programs) -> None:
    draws = max(3, DRAWS.get(task, 1))
    check_stateless(build_task(task, seed=123, **sliced(task) | {"num_train": draws}), task, programs)


@every
def test_broken_programs_fail_and_are_told_why(task: str, build_task: BuildTask, programs: Programs) -> None:
    problem, candidates = build_task(task, **sliced(task)), task_of(task).spec.candidates
    assert candidates is not None
    for name in candidates.broken:
        rollouts = run(problem, task, name, programs)
        for rollout, example in zip(rollouts, problem.train, strict=True):
            assert rollout.failed, f"{name} does not fail on {rollout.example_id}: {rollout.feedback}"
            assert len(rollout.feedback) > 30
            assert rollout.score == task_of(task).judge.worst([example.reference])
            assert rollout.metrics["normalised"] == 0


def digests(problem: Problem) -> dict[str, list[str]]:
    """A hash of each instance, by split."""
    return {
        split: [hashlib.sha256(b"".join(encode(e.reference))).hexdigest() for e in getattr(problem, split)]
        for split in ("train", "validate", "test")
    }


@every
def test_the_problem_agrees_with_its_spec_and_only_equal_seeds_share_instances(
    task: str, build_task: BuildTask
) -> None:
    spec, problem = task_of(task).spec, build_task(task, size="small", seed=4, test_seed=4)
    assert problem.direction == spec.score.direction
    assert not problem.better(spec.score.failure, problem.failure_score), "the spec's failure score is the worst"
    assert problem.score_range is not None and problem.better(problem.score_range[1], problem.failure_score)
    assert spec.statement.strip() in problem.objective
    made, count = digests(problem), spec.sizes["small"].get("n_instance")
    splits = (spec.splits.train, spec.splits.validate_, spec.splits.test)
    assert [len(hashes) for hashes in made.values()] == [min(n, count or n) for n in splits]
    sizes = {"num_train": 1, "num_validate": 1, "num_test": min(1, spec.splits.test)}
    same, other = (digests(build_task(task, size="small", seed=s, test_seed=s, **sizes)) for s in (4, 5))
    assert same == {split: hashes[:1] for split, hashes in made.items()}
    if SINGLE not in spec.tags:
        drawn = [one for hashes in (*made.values(), *other.values()) for one in hashes]
        assert len(drawn) == len(set(drawn)) == sum(map(len, made.values())) + 3


@every
def test_pictures_are_drawings(task: str) -> None:
    one = task_of(task)
    if not hasattr(one.module, "draw"):
        return
    instance = one.instance(size="small")
    solution = one.module.answer(one.program("template"), instance)
    picture = one.module.draw(instance, solution).svg("x & y")
    assert picture == one.module.draw(instance, solution).svg("x & y") and len(picture) < 200_000
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg") and len(root) > 2 and not re.search(r"\b(nan|inf)\b", picture)


def scores() -> dict[str, str]:
    """Return score, to the bit, and feedback of the template of each task."""
    result = {}
    for task in TASKS:
        one = task_of(task)
        instance = one.instance(size="small")
        verdict = one.verdict(instance, one.module.answer(one.program("template"), instance))
        result[task] = f"{verdict.score.hex()} {verdict.remark}"
    return result


def test_two_processes_agree_to_the_bit() -> None:
    program = "import json; from tests.suites.llm4ad.test_llm4ad_suite import scores; print(json.dumps(scores()))"
    root = str(Path(__file__).parents[3])
    environment = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == scores()
