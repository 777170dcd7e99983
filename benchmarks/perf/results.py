"""What looking at a large run costs: 10,000 jobs, 200,000 steps.

    python benchmarks/perf/results.py [--jobs 10000] [--small 1000] [--keep FOLDER]
                                      [--only ls,results,compare,audit,rebuild,runs] [--runs 2000]

A small real run on the local backend is made first; the large one is a matrix of many more seeds, planned and recorded
by the controller's own code, whose jobs have the files of a job of the small one under their own names. Histories are
filled up to 20 lines. So all files fit their schemas; scores repeat, and do not follow from what was asked.

Each command is a fresh process: seconds of wall clock and of processor, peak of memory (`wait4`), and the ratio of its
processor time to that of reading all bytes of the run once, in Python, beside it. `audit` is also tried on a run of
`--small` jobs: it keeps a row of each job, and none of its cassettes and histories. `runs` is `ls` in a folder of many
runs against `ls` in one of 20, which it prints. One line a number, with the limit beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import environment, load

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from trace_bench.artifacts.derived import Yardstick, Yardsticks  # noqa: E402
from trace_bench.artifacts.jsonio import dumps  # noqa: E402
from trace_bench.artifacts.layout import JobLayout, RunLayout  # noqa: E402
from trace_bench.artifacts.outputs import HistoryLine  # noqa: E402
from trace_bench.artifacts.writers import read_journal, write_bytes, write_json  # noqa: E402
from trace_bench.config import parse_config  # noqa: E402
from trace_bench.execution.run_records import manifest_outcome, write_records  # noqa: E402
from trace_bench.execution.start import plan_config  # noqa: E402
from trace_bench.identity import seed_commitment, test_seed  # noqa: E402
from trace_bench.records import parquet  # noqa: E402
from trace_bench.records.reading import read_manifest, read_optional, read_rows  # noqa: E402
from trace_bench.records.tables import write_files_index, write_standings, write_tables  # noqa: E402

Template = tuple[list[tuple[str, str, bool]], list[dict[str, Any]], int]
"""Files of a job (name, text, whether it names the job), and its lines of the run's journal."""
LINES = 20
JOBS, SMALL = 10_000, 1_000
LIMIT_SECONDS, LIMIT_MEMORY = 5.0, 1000
"""Of `ls`, `results` and `compare`: seconds and MB."""
LIMIT_GROWTH = 50
"""Of the memory of `audit`, kB for each further job: its row, its entry in the manifest, and hashes of its files."""
LIMITED = ("ls", "results", "compare")
COMMANDS = {
    "ls": ("ls", "--runs-dir"),
    "results": ("results",),
    "compare": ("compare", "--by", "trainer,variant"),
    "audit": ("audit",),
    "rebuild": ("rebuild", "--check"),
}
FEW, RUNS, LIMIT_LS = 20, 2_000, 0.5
"""Runs that `ls` prints, runs of the larger folder, and seconds that `ls` may take there."""
READ = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            file.read()
"""
START = """
import json, os, sys, time
began = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere), 0)
seconds = time.perf_counter() - began
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, os.waitstatus_to_exitcode(status)]))
"""


@dataclass(frozen=True)
class Spent:
    """What a process took: seconds of wall clock and of processor, and most memory. `code` is its exit code."""

    seconds: float
    processor: float
    megabytes: float
    code: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--small", type=int, default=SMALL, help="jobs of the run that audit is tried on as well")
    parser.add_argument("--only", default=",".join((*COMMANDS, "runs")))
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of the folder that ls is tried on")
    parser.add_argument("--keep", type=Path, help="where the runs are made, and found again by the next call")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        folder = chosen.keep or Path(name)
        run = made(folder, chosen.jobs)
        small = made(folder, chosen.small) if "audit" in chosen.only else None
        only = chosen.only.split(",")
        measure(run, small, [name for name in only if name != "runs"])
        if "runs" in only:
            measure_runs(run, folder, chosen.runs)


def made(folder: Path, jobs: int) -> RunLayout:
    """A run of so many jobs below `folder`, unless it is there."""
    from tests.recorded import RUN_ID, record

    run = RunLayout(folder / f"runs-{jobs}" / f"large-{jobs}")
    template = RunLayout(folder / "runs" / RUN_ID)
    if not template.files_index.exists():
        folder.mkdir(parents=True, exist_ok=True)
        record(folder)
    if not run.files_index.exists():
        began = time.perf_counter()
        expand(template, run, jobs)
        line(f"making a run of {jobs:,} jobs", f"{time.perf_counter() - began:.1f} s", "60 s" if jobs <= JOBS else "")
    return run


def expand(template: RunLayout, run: RunLayout, jobs: int) -> None:
    """Make `run` of `jobs` jobs, rounded up to whole seeds, out of the files of `template`."""
    from tests.recorded import CONFIG

    old = read_manifest(template)
    assert old is not None
    variants = len({(job.task_id, job.trainer_id, job.variant) for job in old.jobs})
    seeds = list(range(1, -(-jobs // variants) + 1))
    config = parse_config({**CONFIG, "seeds": seeds, "runs_dir": str(run.root.parent), "run_id": run.root.name})
    plan = plan_config(config)
    write_records(plan)
    by_kind: dict[tuple[str, str, str], list[Template]] = {}
    journal = read_journal(template.events).lines
    told: list[Mapping[str, Any]] = []
    for job in old.jobs:
        files = list(_files(template.job(job.job_id), {job.job_id: "{job}", job.fingerprint: "{fingerprint}",
                                                       old.run_id: "{run}"}))  # fmt: skip
        events = [one for one in journal if one.get("job_id") == job.job_id]
        by_kind.setdefault((job.task_id, job.trainer_id, job.variant), []).append((files, events, job.seed))
    measured = read_optional(Yardsticks, template.yardsticks)
    known = {(each.task_id, each.seed): each for each in (measured.yardsticks if measured is not None else ())}
    yardsticks: dict[tuple[str, int], Yardstick] = {}
    for planned in plan.jobs:
        alike = by_kind[planned.task_id, planned.trainer_id, planned.variant]
        root = run.job(planned.job_id).make().root
        commitment = seed_commitment(plan.salt, test_seed(plan.salt, planned.task_id, planned.seed))
        files, events, seed = alike[planned.seed % len(alike)]
        if (yardstick := known.get((planned.task_id, seed))) is not None:
            yardsticks[planned.task_id, planned.seed] = yardstick.model_copy(update={"seed": planned.seed})
        told += [{**one, "job_id": planned.job_id} for one in events]
        for name, text, named in files:
            if named:
                text = text.replace("{job}", planned.job_id).replace("{fingerprint}", planned.fingerprint)
                text = text.replace("{run}", plan.run_id).replace("{seed}", str(planned.seed))
                text = text.replace("{commitment}", commitment)
            write_bytes(root / name, text.encode(), durable=False)
    write_json(run.yardsticks, Yardsticks(yardsticks=tuple(yardsticks.values())))
    rows = read_rows(run)
    plan.write_manifest(run, {row.job_id: manifest_outcome(row) for row in rows})
    told.sort(key=lambda one: one["seconds"])
    ends = [{**one, "jobs": len(rows)} for one in (journal[0], journal[-1])]
    ends[1] |= {"finished": len(rows)}
    lines = (dumps(one) + "\n" for one in (ends[0], *told, ends[1]))
    write_bytes(run.events, "".join(lines).encode(), durable=False)
    write_tables(run, rows, len(plan.jobs), plan.config.tags)
    write_standings(run, rows)
    parquet.write_parquet(run.results_parquet, rows)
    write_json(run.lock, plan.lock.model_copy(update={"salt": plan.salt}))
    run.salt.unlink()
    write_files_index(run)


def _files(job: JobLayout, names: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    """The files of a job: path, text with places for what differs between jobs, and whether it has such places."""
    for path in sorted(job.root.rglob("*")):
        if not path.is_file():
            continue
        text = path.read_text()
        if path == job.state_history:
            text = "".join(f"{one.model_dump_json()}\n" for one in _history(path))
        if path in (job.meta, job.results):
            text = re.sub(r'^(  "seed": )\d+', r"\1{seed}", text, count=1, flags=re.MULTILINE)
            text = re.sub(r'("test_seed_commitment": ")\w+', r"\1{commitment}", text)
        named = text
        for name, place in names.items():
            named = named.replace(name, place)
        yield path.relative_to(job.root).as_posix(), named, any(p in named for p in (*names.values(), "{seed}"))


def _history(path: Path) -> list[HistoryLine]:
    """A history of `LINES` lines: what is there, and then its last line again, of a further step."""
    lines = [HistoryLine.model_validate(one, strict=False) for one in read_journal(path).lines][:LINES]
    while len(lines) < LINES:
        last = lines[-1]
        more = {"step": last.step + 1, "candidate": f"more-{len(lines)}", "seconds": last.seconds,
                "parents": (last.candidate,)}  # fmt: skip
        lines.append(last.model_copy(update=more))
    return lines


def measure(run: RunLayout, small: RunLayout | None, only: list[str]) -> None:
    number, size = sum(1 for _ in run.job_dirs()), sum(p.stat().st_size for p in run.root.rglob("*") if p.is_file())
    print(f"{number:,} jobs, {number * LINES:,} steps, {size / 1e6:.0f} MB ({load()})")
    plain = spent(sys.executable, "-c", READ, str(run.root))  # once, so that all of it is in memory for all of them
    plain = spent(sys.executable, "-c", READ, str(run.root))
    line("reading all bytes", f"{plain.seconds:.1f} s (processor {plain.processor:.1f} s)")
    for name in only:
        found = command(name, run)
        limit = f"{LIMIT_SECONDS:.0f} s, {LIMIT_MEMORY} MB" if name in LIMITED else ""
        took = f"{found.seconds:.1f} s (processor {found.processor:.1f} s) {found.megabytes:5.0f} MB"
        line(f"{name}, exit code {found.code}", f"{took}  ratio {found.processor / plain.processor:5.1f}", limit)
        if name == "audit" and small is not None:
            less = command(name, small)
            further = max(1, number - sum(1 for _ in small.job_dirs()))
            growth = 1000 * (found.megabytes - less.megabytes) / further
            line("  memory for each further job", f"{growth:.0f} kB", f"{LIMIT_GROWTH} kB")


def measure_runs(run: RunLayout, folder: Path, number: int) -> None:
    """Compare `ls` of `number` runs, copies of the small files of `run`, with `ls` of as many as it prints."""
    found = {}
    for count in (FEW, number):
        runs = folder / f"list-{count}"
        for n in range(count):
            copy = RunLayout(runs / f"copy-{n:05}")
            for path in (run.manifest, run.lock, run.config_snapshot, run.events, run.summary):
                write_bytes(copy.root / run.relative(path), path.read_bytes(), durable=False)
        tries = [spent(sys.executable, "-m", "trace_bench", "ls", "--runs-dir", str(runs)) for _ in range(5)]
        found[count] = min(tries, key=lambda one: one.processor)
    few, many = found[FEW], found[number]
    took = f"{many.seconds:.2f} s (processor {many.processor:.2f} s)"
    line(f"ls of {number:,} runs", f"{took}  ratio {many.processor / few.processor:5.2f}", f"{LIMIT_LS} s")


def command(name: str, run: RunLayout) -> Spent:
    words = [*COMMANDS[name], str(run.root.parent if name == "ls" else run.root)]
    return spent(sys.executable, "-m", "trace_bench", *words)


def spent(*words: str) -> Spent:
    """What one process takes, whatever it ends with. Its parent is a small one: the memory of the process that was
    copied to start it counts as its own."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", START, *words], env=environment(), capture_output=True, text=True, check=True
    )
    found = Spent(*json.loads(done.stdout.splitlines()[-1]))
    if found.code not in (0, 4):
        print(f"{' '.join(words[-3:])}: {done.stderr.strip()[-500:]}")
    return found


def line(what: str, value: str, limit: str = "") -> None:
    print(f"{what:38} {value:>52}" + (f"   limit {limit}" if limit else ""), flush=True)


if __name__ == "__main__":
    main()
