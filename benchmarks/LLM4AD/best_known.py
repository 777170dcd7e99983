"""Find the best known scores of the instances that tasks are trained on by default, and store them beside the tasks.

    python -m benchmarks.LLM4AD.best_known                                   # all tasks, all sizes
    python -m benchmarks.LLM4AD.best_known optimization/tsp_construct --size large --seconds 60
    trace-bench check-task llm4ad:optimization/tsp_construct --program found.py --json > checked.json
    python -m benchmarks.LLM4AD.best_known --checked checked.json --by "GEPA, gpt-5"

Of each training instance of seed 123 the template's score is measured, and the best of: the task's solver in
``solvers/`` if it has one, the references unless that proves its solution optimal, and what the table has already;
``--checked`` takes better scores of any program that ran in a sandbox, at the size standard. A solver defines ``BY``,
its name, and ``solve(instance, seconds) -> (solution, proven) | None``, with the solution as the evaluator's ``answer``
returns it, and whether it is optimal. Every solution is judged by the evaluator, and refused if it beats the bound: of
a solution that it builds itself, step by step, an evaluator has nothing to check.

Templates, references and solvers run in this process and its children. Solvers need ``ortools``, ``highspy`` and
``pyvrp``, which nothing else here does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np

from trace_bench.suites.best_known import FILE, key_in
from trace_bench.suites.judge import Judge
from trace_bench.suites.splits import STANDARD, settings_of, size_of, split_seed
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.problem import BuildContext

HERE = Path(__file__).parent
TASKS = HERE / "benchmark_tasks"
SEED = 123
SIZES = ("small", "standard", "large")


@dataclass(frozen=True)
class Item:
    """One instance to solve."""

    task: str
    size: str
    number: int
    seconds: float


@dataclass(frozen=True)
class Found:
    """What was found of one instance: its digest, the template's and the best score, and the same normalised."""

    digest: str
    template: float
    best: float
    source: str
    shares: tuple[float, float]


def context_of(task: str, size: str) -> BuildContext:
    """The context that the task's default training instances are built with."""
    folder = TASKS / task
    spec = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    given = {name: argument.get("default") for name, argument in spec.get("eval_kwargs", {}).items()}
    given |= spec.get("sizes", {}).get(size, {})
    return BuildContext(task_dir=folder, spec=spec, eval_kwargs=given | {"size": size}, seed=SEED, programs=None)  # type: ignore[arg-type]


def count_of(context: BuildContext) -> int:
    """The number of default training instances."""
    return int(context.eval_kwargs.get("n_instance") or context.spec["splits"]["train"])


def instance_of(context: BuildContext, module: ModuleType, number: int) -> dict[str, Any]:
    """The training instance `number`, from 0."""
    settings = {k: v for k, v in settings_of(context, "train").items() if k not in ("n_instance", "size")}
    seed = split_seed(context, "train")
    return dict(module.instance(np.random.default_rng([seed, number]), **settings))


def solved(item: Item) -> Found:
    """Solve one instance by everything at hand."""
    context = context_of(item.task, item.size)
    module = load_module(context.task_dir / "evaluator.py")
    instance = instance_of(context, module, item.number)
    judge = Judge(module, context.spec)
    known = _stored(context.task_dir).get(item.size, {}).get("instances", {})
    name = key_in(known, instance)
    candidates = context.spec["candidates"]
    template = _played(context, module, instance, candidates["template"])
    if template is None:
        raise SystemExit(f"{item.task}: the template fails on instance {item.number} of size {item.size}")
    entry = known.get(name)
    scores: list[tuple[float, str]] = [] if entry is None else [(entry[1], entry[2])]
    today = _today()
    if entry is None or not _proven(entry[2]):
        scores += [(score, f"{by}, {today}") for score, by in _by_solver(item, module, judge, instance)]
    if not any(_proven(by) for _, by in scores):
        for role, by in (("reference", "the reference program"), ("stateless", "the stateless reference program")):
            played = _played(context, module, instance, candidates[role]) if role in candidates else None
            scores += [] if played is None else [(played, f"{by}, {today}")]
    sign = 1 if context.spec["score"]["direction"] == "maximize" else -1
    best, by = max([*scores, (template, f"the template, {today}")], key=lambda pair: sign * pair[0])
    bound = judge.best([instance])
    if bound is not None and math.isclose(bound, best, rel_tol=1e-9) and not _proven(by):
        by = by.replace(f", {today}", f", equal to the bound, {today}")
    return Found(name, template, best, by, (judge.normalised(instance, template), judge.normalised(instance, best)))


def _proven(source: str) -> bool:
    return "optimal" in source or "equal to the bound" in source


def _played(context: BuildContext, module: ModuleType, instance: dict[str, Any], name: str) -> float | None:
    """The score of one of the task's own programs; None if it fails."""
    try:
        program = getattr(load_module(context.task_dir / name), context.spec["entry"])
        return Judge(module, context.spec).verdict(instance, module.answer(program, instance)).score
    except Exception as error:
        print(f"{context.task_dir.name}: {name} fails: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        return None


def taken(checked: Mapping[str, Any], by: str) -> int:
    """Put scores of ``check-task --json`` that are better into the tables; returns how many are."""
    better = 0
    for row in checked["tasks"]:
        task = row["id"].partition(":")[2]
        context = context_of(task, STANDARD)
        module = load_module(context.task_dir / "evaluator.py")
        judge, table = Judge(module, context.spec), _stored(context.task_dir)
        sign = 1 if judge.maximizes else -1
        shares = []
        for number in range(count_of(context)):
            instance = instance_of(context, module, number)
            entry = table[STANDARD]["instances"][key_in(table[STANDARD]["instances"], instance)]
            scores = [p["scores"][number] for p in row["programs"] if not p["failed"] and len(p["scores"]) > number]
            best = max(scores, key=lambda score: sign * score, default=entry[1])
            if sign * (best - entry[1]) > 1e-9 * abs(best):
                entry[1:] = [best, f"{by}, {_today()}"]
                better += 1
            shares.append(judge.normalised(instance, entry[1]))
        table[STANDARD]["best"] = fmean(shares)
        (context.task_dir / FILE).write_text(table_text(table), encoding="utf-8")
    return better


def _today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def _by_solver(item: Item, module: ModuleType, judge: Judge, instance: dict[str, Any]) -> Iterator[tuple[float, str]]:
    path = HERE / "solvers" / f"{item.task.replace('/', '_')}.py"
    if not path.is_file():
        return
    solver = load_module(path)
    try:
        found = solver.solve(instance, item.seconds)
        if found is None:
            return
        score, bound = judge.verdict(instance, found[0]).score, judge.best([instance])
        sign = 1 if judge.maximizes else -1
        if bound is not None and sign * (score - bound) > 1e-6 * (1 + abs(bound)):
            raise ValueError(f"its solution scores {score:g}, and nothing can beat {bound:g}")
        yield score, f"{solver.BY}{', optimal' if found[1] else ''}"
    except Exception as error:
        print(f"{item.task}, {item.size}: the solver fails: {type(error).__name__}: {error}"[:300], file=sys.stderr)


def _stored(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    return json.loads(path.read_text()) if path.is_file() else {}


def table_text(table: Mapping[str, Any]) -> str:
    """``best_known.json``: an instance is a line."""
    parts = []
    for size in (size for size in SIZES if size in table):
        of = table[size]
        lines = ",\n".join(f"   {json.dumps(name)}: {json.dumps(entry)}" for name, entry in of["instances"].items())
        parts.append(f' "{size}": {{\n  "template": {of["template"]},\n  "best": {of["best"]},\n'
                     f'  "instances": {{\n{lines}\n  }}\n }}')  # fmt: skip
    if "files" in table:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in table["files"].items())
        parts.append(f' "files": {{\n{lines}\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> int:
    """Solve, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.LLM4AD.best_known")
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--size", action="append", choices=SIZES)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a solver, for an instance")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--checked", type=Path, metavar="FILE")
    parser.add_argument("--by", default="a program")
    options = parser.parse_args(arguments)
    every = sorted(str(path.parent.relative_to(TASKS)) for path in TASKS.rglob("task.toml"))
    if options.checked:
        better = taken(json.loads(options.checked.read_text(encoding="utf-8")), options.by)
        print(f"{better} scores are better than the best known ones")
        return 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for task in options.tasks or every:
            for size in options.size or SIZES:
                context = context_of(task, size)
                if size_of(context, "train") != "standard" and size not in context.spec.get("sizes", {}):
                    continue
                items = [Item(task, size, n, options.seconds) for n in range(count_of(context))]
                found = list(pool.map(solved, items))
                table = _stored(context.task_dir)
                table[size] = {
                    "template": fmean(one.shares[0] for one in found),
                    "best": fmean(one.shares[1] for one in found),
                    "instances": {one.digest: [one.template, one.best, one.source] for one in found},
                }
                (context.task_dir / FILE).write_text(table_text(table), encoding="utf-8")
                print(f"{task} {size}: template {fmean(one.template for one in found):.6g}, "
                      f"best known {fmean(one.best for one in found):.6g} ({found[0].source})", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
