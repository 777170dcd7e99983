"""The reference pages of the ``llm4ad`` tasks, from their folders and from what their programs were measured to score.

``trace-bench check-task llm4ad:all --json > FILE`` measures; ``python -m benchmarks.LLM4AD.pages --measured FILE``
keeps of it what the pages tell, in ``measured.json`` here; ``--write`` writes pages, ``--pictures`` draws, too (which
runs evaluators and reference programs in this process). ``--check`` says whether all is up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.LLM4AD import published
from trace_bench.resources import data_dir
from trace_bench.suites.best_known import FILE
from trace_bench.suites.registry import TaskEntry, discover
from trace_bench.suites.spec import TaskSpec, load_task_spec
from trace_bench.suites.splits import STANDARD

SUITE = "llm4ad"
DOCS = Path("docs/reference/tasks")
PICTURES = "pictures"
_HEAD = """# The tasks of `llm4ad`

<!-- Written by `python -m benchmarks.LLM4AD.pages --write`, from the tasks' folders. Change those. -->

Algorithm-design tasks: the one parameter is a program, `code`, that is judged on generated instances. All of them
are built and judged alike:

* **Instances** are drawn from the job's seed by SHA-256 of seed and split, each from a generator of its own; those of
  the test from the test seed alone. `n_instance` is their number in each split; `num_train`, `num_validate`,
  `num_test` go before it. Tasks with *published data* can read those instead ([how](../../how-to/published-data.md)).
* **Interaction.** `solve`: the program gets an instance and returns a solution. `policy`: the evaluator asks it step
  by step and holds the state. `fit`: it is called with whole arrays. One process for each instance; `timeout_seconds`
  is the limit of a call.
* **Forms** of tasks that build a solution step by step. `form: planned` (the default): one process answers all calls of
  an instance, so that a program may plan at its first call and follow the plan. `form: stateless`: each call is
  answered by a fresh process, as if the function were called for the first time; scores compare with those of EoH
  (arXiv:2401.02051) and ReEvo (arXiv:2402.01145). Instances, scores and gaps are the same, references differ: the
  column *stateless* has the gap of the stateless one ([how](../../design/tasks.md)).
* **Scores** are in natural units, in the direction of the table; a program's is the mean over instances. An instance
  on which it fails, or breaks a rule, costs what is worst on that very instance, and the feedback says which rule and
  where.
* **`gap`** is the number by which tasks are averaged: 0 at the score of the template, 1 at the best known score where
  one is known, else at that of the reference program, on the same instances ([how](../../design/tasks.md#gaps)). The
  metric **`normalised`** is 1 at the bound (or the target that the page names), and 0 for a failure.
* **Sizes.** `size: small`, `standard` (the default) or `large` sets the arguments that shape instances; `test_size`
  sets those of held-out instances alone.

The numbers are of the programs that come with each task, on the default training instances of seed 123 at standard
size; the seconds are those of one evaluation of the template, in a sandbox with one core. *Best known* is the mean of
the best known scores of these instances, *optimal* how many of them are proven; *bound* is the mean of what no program
can beat, – where none is known. Each task's `best_known.json` says where a value is from. What papers report for these
problems, and with which settings, is on the page of [published results](../published-results.md).
"""


def measured_file() -> Path:
    """What `--measured` keeps."""
    return data_dir("benchmarks") / "LLM4AD" / "measured.json"


def judged_hash(folder: Path) -> str:
    """12 hex digits over evaluator and programs: what measured scores depend on."""
    digest = hashlib.sha256()
    for path in [folder / "evaluator.py", *sorted((folder / "programs").glob("*.py"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def condensed(checked: Mapping[str, Any], folders: Mapping[str, Path]) -> dict[str, Any]:
    """Of ``check-task --json``, what the pages tell."""
    rows = {}
    for row in checked["tasks"]:
        if row["problems"]:
            raise SystemExit(f"{row['id']}: {row['problems'][0]}")
        rows[row["id"]] = {
            "judged": judged_hash(folders[row["id"]]),
            "bound": row["bound"],
            "programs": [
                {key: program[key] for key in ("role", "name", "score", "failed", "examples", "seconds", "metrics")}
                | ({"feedback": program["feedback"]} if program["role"] == "broken" else {})
                for program in row["programs"]
            ],
        }
    return dict(sorted(rows.items()))


def pages(entries: Iterable[TaskEntry], measured: Mapping[str, Any], pictures: Iterable[str]) -> dict[str, str]:
    """``{path below docs/reference/tasks: Markdown}``."""
    drawn = set(pictures)
    rows = []
    found: dict[str, str] = {}
    for entry in entries:
        spec, name = load_task_spec(entry.folder), entry.id.partition(":")[2]
        seen = measured.get(entry.id, {"programs": [], "bound": None})
        known = best_known_of(entry.folder)
        rows.append(_row(name, spec, seen, known))
        found[f"{name}.md"] = _page(entry, spec, seen, known, f"{name.replace('/', '-')}.svg" in drawn)
    head = (
        "| task | interaction | direction | template | reference | best known | optimal | bound | gap | stateless | "
        "normalised | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    found[f"{SUITE}.md"] = f"{_HEAD}\n{len(rows)} tasks.\n\n{head}" + "".join(rows)
    return found


def published_page(entries: Iterable[TaskEntry], measured: Mapping[str, Any], page: str) -> str:
    """The page of published results, with its table of ten tasks as it is to be."""
    rows = {}
    for entry in entries:
        name = entry.id.partition(":")[2]
        if name in published.REPORTED and entry.id in measured:
            seen = measured[entry.id]
            of = {program["role"]: program for program in reversed(seen["programs"])}
            known = _number(best_mean(best_known_of(entry.folder), STANDARD))
            share = published.from_bound(of, seen["bound"])
            rows[name] = _score(of["template"]), _score(of["reference"]), known, share
    return published.with_table(page, published.table(rows))


def best_known_of(folder: Path) -> dict[str, Any]:
    """``best_known.json`` of a task; empty if it has none."""
    path = folder / FILE
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def best_mean(known: Mapping[str, Any], size: str) -> float | None:
    """The mean of the best known scores of the default training instances of a size."""
    entries = known.get(size, {}).get("instances", {})
    return fmean(entry[1] for entry in entries.values()) if entries else None


def _optimal(known: Mapping[str, Any], size: str) -> str:
    entries = known.get(size, {}).get("instances", {})
    proven = sum("optimal" in entry[2] or "equal to the bound" in entry[2] for entry in entries.values())
    return f"{proven} of {len(entries)}" if entries else "–"


def _row(name: str, spec: TaskSpec, seen: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    of = {program["role"]: program for program in reversed(seen["programs"])}
    template, reference = of.get("template"), of.get("reference")
    share = f"{_share(template)} → {_share(reference)}"
    stateless = _share(of.get("stateless"), "gap")
    seconds = f"{template['seconds']:.1f}" if template else "–"
    return (
        f"| [{name}]({name}.md) | {spec.interaction} | {spec.score.direction} | {_score(template)} | "
        f"{_score(reference)} | {_number(best_mean(known, STANDARD))} | {_optimal(known, STANDARD)} | "
        f"{_number(seen['bound'])} | {_share(reference, 'gap')} | {stateless} | {share} | {seconds} |\n"
    )


def _page(entry: TaskEntry, spec: TaskSpec, seen: Mapping[str, Any], known: Mapping[str, Any], picture: bool) -> str:
    name = entry.id.partition(":")[2]
    up = "../" * name.count("/")
    parts = [
        f"# {entry.id}",
        "<!-- Written by `python -m benchmarks.LLM4AD.pages --write`. Change the task's folder. -->",
        f"**{spec.title}.** [All tasks]({up}{SUITE}.md)",
        spec.statement.strip(),
        f"```python\n{(spec.signature or '').strip()}\n```",
        _forms(spec, f"{up}{SUITE}.md"),
    ]
    if picture:
        parts.append(
            f"![The answer of the reference program to an instance]({up}{PICTURES}/{name.replace('/', '-')}.svg)"
        )
    parts += [_scoring(spec), _programs(seen), _arguments(spec), _sizes(spec, known)]
    if spec.data is not None:
        files = ", ".join(f"`{pattern}`" for pattern in spec.data.files)
        how = f"[how]({up}../../how-to/published-data.md)"
        untested = (
            "" if spec.data.tested else " No true file could be had: they were read as their format is described."
        )
        parts.append(f"**Published data**: {files}, in a folder `{spec.data.folder}` ({how}).{untested}")
    parts += [
        f"**Otherwise elsewhere.** {spec.corrections.strip()}",
        f"**Source.** {spec.source.strip()}. Tags: {', '.join(f'`{tag}`' for tag in spec.tags)}. "
        f"Needs: {', '.join(spec.dependencies)}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _forms(spec: TaskSpec, suite: str) -> str:
    if spec.interaction != "policy" or spec.candidates is None:
        return ""
    if spec.candidates.stateless is None:
        return "One process answers all calls of an instance."
    return (
        "**Forms** ([how](" + suite + ")). `form: planned`, the default: one process answers all calls of an instance. "
        f"`form: stateless`: each call is answered by a fresh process; the reference is "
        f"`{Path(spec.candidates.stateless).name}`."
    )


def _scoring(spec: TaskSpec) -> str:
    score = spec.score
    known = f" Best known: {score.best_known:g}." if score.best_known is not None else ""
    lines = [f"**Score**: {score.direction}.{known} A program that fails everywhere scores {score.failure:g} at worst."]
    lines += [f"* metric `{name}` ({metric.direction}): {metric.doc}" for name, metric in spec.metrics.items()]
    limits = spec.limits
    lines.append(
        f"* limits: {limits.wall_seconds:g} s for a call; for an instance {limits.cpu_seconds:g} s of CPU time and "
        f"{limits.memory_mb} MiB"
    )
    return "\n".join([lines[0], "", *lines[1:]])


def _programs(seen: Mapping[str, Any]) -> str:
    if not seen["programs"]:
        return ""
    lines = ["| program | score | gap | normalised | seconds |", "|---|---|---|---|---|"]
    for program in seen["programs"]:
        level = program["role"] == "level"
        name = program["name"] if level else f"{program['role']} (`{Path(program['name']).name}`)"
        if program["failed"]:
            lines.append(f"| {name} | fails | | 0 | |")
        else:
            shares = f"{_share(program, 'gap')} | {_share(program)}"
            lines.append(f"| {name} | {_score(program)} | {shares} | {program['seconds']:.2f} |")
    lines += [
        f"\nFeedback on the broken program: *{_line(program['feedback'])}*"
        for program in seen["programs"] if program["role"] == "broken"
    ][:1]  # fmt: skip
    bound = seen["bound"]
    return "\n".join(lines) + (f"\n\nMean bound of these instances: {_number(bound)}." if bound is not None else "")


def _arguments(spec: TaskSpec) -> str:
    if not spec.eval_kwargs:
        return ""
    lines = ["| argument | default | bounds | meaning |", "|---|---|---|---|"]
    for name, argument in spec.eval_kwargs.items():
        low, high = argument.minimum, argument.maximum
        bounds = "" if low is None and high is None else f"{_number(low)} .. {_number(high)}"
        if argument.choices:
            bounds = ", ".join(map(str, argument.choices))
        lines.append(f"| `{name}` | {json.dumps(argument.default)} | {bounds} | {argument.doc} |")
    return "\n".join(lines)


def _sizes(spec: TaskSpec, known: Mapping[str, Any]) -> str:
    """The sizes with their arguments and the mean best known scores."""
    if not spec.sizes:
        return ""
    lines = ["| size | arguments | best known | optimal |", "|---|---|---|---|"]
    for size in ("small", STANDARD, "large"):
        values = spec.sizes.get(size, {}) if size != STANDARD else {}
        shown = ", ".join(f"`{name}` = {json.dumps(value)}" for name, value in values.items()) or "as above"
        lines.append(f"| {size} | {shown} | {_number(best_mean(known, size))} | {_optimal(known, size)} |")
    files = len(known.get("files", {}))
    note = f"\n\nBest known scores of {files} published instances are in `best_known.json`." if files else ""
    return "\n".join(lines) + note


def _score(program: Mapping[str, Any] | None) -> str:
    return "–" if program is None else _number(program["score"])


def _share(program: Mapping[str, Any] | None, metric: str = "normalised") -> str:
    share = None if program is None else program["metrics"].get(metric)
    return "–" if share is None else f"{share:.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}" if abs(value) < 1e5 else f"{value:,.0f}".replace(",", " ")


def _line(text: str) -> str:
    told = " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
    return told if len(told) <= 300 else told[:300] + " …"


def draw(entry: TaskEntry) -> str | None:
    """The reference program's answer to an instance, as SVG; None for a task that draws nothing."""
    import numpy as np

    from trace_bench.suites.splits import COMMON_EVAL_KWARGS
    from trace_bench.suites.task_folder import load_module

    spec, evaluator = load_task_spec(entry.folder), load_module(entry.folder / "evaluator.py")
    if not hasattr(evaluator, "draw") or spec.candidates is None or spec.candidates.reference is None:
        return None
    settings = {
        name: argument.default for name, argument in spec.eval_kwargs.items()
        if name not in COMMON_EVAL_KWARGS and name != "n_instance"
    }  # fmt: skip
    instance = evaluator.instance(np.random.default_rng([123, 0]), **settings)
    program = getattr(load_module(entry.folder / spec.candidates.reference), spec.entry or "")
    return str(evaluator.draw(instance, evaluator.answer(program, instance)).svg(spec.title))


def main(arguments: list[str]) -> int:
    """Exit code 1: ``--check`` found a page that is not what would be written."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.LLM4AD.pages")
    parser.add_argument("--measured", type=Path)
    for option in ("--write", "--pictures", "--check"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_args(arguments)
    entries = discover([SUITE])
    if options.measured:
        kept = condensed(json.loads(options.measured.read_text()), {entry.id: entry.folder for entry in entries})
        if measured_file().exists():
            kept = dict(sorted((json.loads(measured_file().read_text()) | kept).items()))
        measured_file().write_text(json.dumps(kept, indent=1) + "\n")
    pictures = DOCS / PICTURES
    if options.pictures:
        pictures.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            picture = draw(entry)
            if picture is not None:
                (pictures / f"{entry.id.partition(':')[2].replace('/', '-')}.svg").write_text(picture)
    wanted = up_to_date(entries)
    if options.write:
        for name, text in wanted.items():
            (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
            (DOCS / name).write_text(text)
    if options.check:
        there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | {f"../{published.PAGE}"}
        stale = [name for name, text in wanted.items() if name not in there or (DOCS / name).read_text() != text]
        stale += sorted(there - wanted.keys())
        for name in stale:
            print(f"{DOCS / name} is not what its task says; run with --write", file=sys.stderr)
        return 1 if stale else 0
    return 0


def up_to_date(entries: Iterable[TaskEntry]) -> dict[str, str]:
    """`pages`, and the page of published results, as they are to be, from what was measured and drawn."""
    path = measured_file()
    measured = json.loads(path.read_text()) if path.exists() else {}
    entries = list(entries)
    found = pages(entries, measured, (picture.name for picture in (DOCS / PICTURES).glob("*.svg")))
    page = DOCS.parent / published.PAGE
    return found | {f"../{published.PAGE}": published_page(entries, measured, page.read_text())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
