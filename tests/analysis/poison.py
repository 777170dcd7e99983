"""A run in which everything that a stranger could have written is markup, a program, or too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trace_bench.artifacts.layout import RunLayout

HACK = "window.hacked=1"
TEXTS = (
    f"<script>{HACK}</script>",
    f"</script><script>{HACK}</script>",
    f'"><img src=x onerror={HACK}>',
    f"<svg onload={HACK}>",
    f'<a href="javascript:{HACK}">click</a>',
    f"'-{HACK}-' ${{{HACK}}} {{{{{HACK}}}}}",
    "<!--<script>",
    "](javascript:window.hacked=1) | x | `y` \n# heading",
    "ok \u202edeliaf\u202c \u2028 \x1b[2J \x00",
    "&lt;script&gt;",
)


def text(number: int) -> str:
    return TEXTS[number % len(TEXTS)]


def poisoned(run: RunLayout) -> RunLayout:
    """`run` with such texts in rows, histories, fronts, records of the host and its own name; the first job's history
    has a line of a megabyte, and every third job has failed with such a message."""
    for number, job in enumerate(run.job_dirs()):
        row = _read(job.results)
        row |= {
            "variant": text(number + 3),
            "model": text(number // 9 + 4),
            "resolved_optimizer": text(number // 9 + 5),
            "task_id": row["task_id"] + text(1),
            "integrity_flags": f"<b>{HACK}</b>",
        }
        if number % 3 == 2:
            row |= {
                "status": "failed",
                "failure_boundary": "task",
                "failure_kind": text(number),
                "feedback": text(number),
            }
        job.results.write_text(json.dumps(row))
        lines = [json.loads(line) for line in job.state_history.read_text().splitlines()]
        for place, line in enumerate(lines):
            line["candidate"] += text(place)
            line["parents"] = [parent + text(0) for parent in line["parents"]]
            line["reason"], line["extra"] = text(place), {"feedback": text(place + 1)}
            line["parameters"] = {
                text(2): "x = 1\n" + text(place) + "\n" + (HACK + ";") * (80_000 if not number else 1)
            }
        job.state_history.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if job.pareto.exists():
            front = _read(job.pareto)
            for point in front["points"]:
                point["candidate"] += text(1)
            job.pareto.write_text(json.dumps(front))
    env = _read(run.env)
    env["env"]["LANG"], env["platform"] = text(0), text(2)
    run.env.write_text(json.dumps(env))
    git = _read(run.git)
    run.git.write_text(json.dumps({**git, "branch": text(1)}))
    snapshot = run.config_snapshot
    snapshot.write_text(snapshot.read_text().replace("name: recorded", f"name: {json.dumps(text(1))}"))
    target = run.root.with_name("run<img src=x onerror=window.hacked=1>")
    return RunLayout(run.root.rename(target))


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value
