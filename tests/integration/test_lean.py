"""Lean tasks in containers. The program `lean` of the image answers from recordings of a real one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY, cli
from tests.suites.veribench.support import toolchain

pytestmark = pytest.mark.docker


def test_searches_find_better_files_in_containers(lean: Path, tmp_path: Path) -> None:
    config = REPOSITORY / "configs" / "veribench_smoke.yaml"
    done = cli("run", str(config), "--runs-dir", str(tmp_path), home=lean, timeout=600)
    assert done.returncode == 0, done.stderr
    (table,) = tmp_path.glob("*/results.csv")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert all(row["integrity"] == "protected" for row in rows)
    better = [row for row in rows if float(row["score_best"]) > float(row["score_initial"])]
    assert len(better) >= 2, rows
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*/jobs/*/results.json")]
    assert all({"compiles", "tests", "theorems", "axioms_ok"} <= set(json.dumps(found).split('"')) for found in results)


def test_an_image_without_a_toolchain_says_what_to_download(home: Path, tmp_path: Path) -> None:
    done = cli("images", "build", "lean", home=tmp_path, timeout=120)
    assert done.returncode == 3 and "--toolchain FILE" in done.stderr and "leanprover/lean4" in done.stderr


def test_an_archive_with_another_hash_is_refused(tmp_path: Path) -> None:
    archive = toolchain(tmp_path / "lean.zip")
    done = cli("images", "build", "lean", "--toolchain", str(archive), "--checksum", "0" * 64, home=tmp_path)
    assert done.returncode == 2 and "download it again" in done.stderr


SEARCH = """
  - id: PrioritySearch
    params_variants: [{threads: 2, ps_steps: 1, ps_batches: 1, ps_candidates: 2, ps_proposals: 2, ps_mem_update: 1}]
    optimizer: null
    optimizer_kwargs: {}
"""
GEPA = "params_variants: [{threads: 2, gepa_iters: 1, gepa_train_bs: 2, gepa_merge_every: 2, gepa_pareto_subset: 2}]"
PUBLISHED = {
    "m2_veribench_smoke": (
        "internal:numeric_param trace_examples:opentrace_greeting veribench:binary_search veribench:bubble_sort "
        "veribench:insertion_sort",
        SEARCH,
    ),
    "m2_crossbench_smoke": (
        "internal:numeric_param internal:code_param trace_examples:opentrace_greeting "
        "trace_examples:opentrace_train_single_node llm4ad:circle_packing veribench:binary_search",
        f"{SEARCH}\n  - id: GEPA-Base\n    {GEPA}\n    optimizer: null\n    optimizer_kwargs: {{}}\n",
    ),
    "m1_validation": (
        "internal:code_param internal:numeric_param internal:multi_param internal:non_trainable "
        "trace_examples:greeting_stub llm4ad:circle_packing veribench:smoke_placeholder",
        f"{SEARCH}\n  - id: GEPA-Base\n    {GEPA}\n    optimizer: OPROv2\n    optimizer_kwargs: {{}}\n"
        f"  - id: GEPA-UCB\n    {GEPA}\n  - id: GEPA-Beam\n    {GEPA}\n",
    ),
    "m2_veribench_coverage": ("veribench:all", SEARCH),
}
"""Tasks and trainers of the configs of the older Trace-Bench that name VeriBench."""


@pytest.mark.parametrize(
    "name", ["m2_veribench_smoke", *(pytest.param(name, marks=pytest.mark.slow) for name in list(PUBLISHED)[1:])]
)
def test_configs_of_the_older_trace_bench_run_in_stub_mode(name: str, lean: Path, tmp_path: Path) -> None:
    tasks, trainers = PUBLISHED[name]
    rows = "".join(f"\n  - id: {task}" for task in tasks.split())
    config = tmp_path / f"{name}.yaml"
    config.write_text(
        f"mode: stub\nseeds: [123]\nmax_workers: 2\nfail_fast: false\neval_kwargs: {{timeout_seconds: 20}}\n"
        f"tasks:{rows}\ntrainers:{trainers}"
    )
    done = cli("run", str(config), "--runs-dir", str(tmp_path / "runs"), home=lean, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    (table,) = (tmp_path / "runs").glob("*/results.csv")
    found = list(csv.DictReader(table.read_text().splitlines()))
    failing = [row for row in found if row["task_id"] == "internal:non_trainable"]
    assert all(row["status"] == "ok" for row in found if row not in failing), done.stderr
    assert sum(row["suite"] == "veribench" for row in found) >= 1 and all(row["status"] != "ok" for row in failing)
