"""The command ``compare``, on runs with known scores and on a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.experiments import job, jobs, make_experiment
from tests.console import here
from tests.integration.cli import REPOSITORY
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.compare import compare as compare_command
from trace_bench.display.terminal import Screen
from trace_bench.errors import ExitCode


def score(task: str, seed: int) -> float:
    return 0.5 + 0.01 * seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [*jobs(score, ["x", "y"], range(6)), *jobs(score, ["x", "y"], range(6), trainer_id="P", variant="n=2")]
    make_experiment(tmp_path, "a", rows)
    make_experiment(tmp_path, "b", jobs(score, ["x", "y"], range(6), model="m"), lock={"sources_hash": "f" * 64})
    return tmp_path


def compare(folder: Path, *arguments: str) -> Any:
    return here("compare", *arguments, "--runs-dir", str(folder))


def test_what_differs_comes_before_any_number(folder: Path) -> None:
    done = compare(folder, "a", "--where", "trainer=NoOp", "--where", "trainer=P", "--explain")
    assert (done.returncode, done.stderr) == (0, "")
    heads = ["Parts", "What differs: trainer=P against trainer=NoOp", "trainer=P against trainer=NoOp"]
    heads += ["What could be detected", "Methods"]
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in heads] == heads
    assert "arXiv:2411.00640" in done.stdout and "arXiv:2108.13264" in done.stdout
    assert "higher/equal/lower: 0/2/0 of 2 tasks" in done.stdout and "WARNING" not in done.stdout


def test_one_table_with_verdicts_and_one_line_of_caveats(folder: Path) -> None:
    done = compare(folder, "a", "--where", "trainer=NoOp", "--where", "trainer=P")
    title, header, *rows, caveats = done.stdout.splitlines()
    assert title == "NoOp is the baseline; normalised held-out score of the best state"
    assert header.split()[-3:] == ["p", "(Holm)", "verdict"]
    assert [row.split()[-1] for row in rows] == ["equal"] * 4, "two tasks, these tasks, tasks like these"
    assert caveats.startswith("Caveats: ") and caveats.endswith("--explain says more.") and "arXiv" not in done.stdout


@pytest.mark.parametrize(("seeds", "verdicts"), [(3, ["undecided"] * 2), (12, ["better"] * 2)])
def test_a_verdict_takes_a_small_p(tmp_path: Path, seeds: int, verdicts: list[str]) -> None:
    up = jobs(lambda task, seed: score(task, seed) + 0.2, ["x", "y"], range(seeds), trainer_id="P")
    make_experiment(tmp_path, "a", [*jobs(score, ["x", "y"], range(seeds)), *up])
    lines = compare(tmp_path, "a", "--by", "trainer").stdout.splitlines()
    assert [line.split()[-1] for line in lines if " t:x " in line or " t:y " in line] == verdicts
    assert ("no single task can have a verdict, nor an interval" in lines[-1]) == (seeds == 3)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_fits_the_terminal_and_rows_can_be_told_apart(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = ["optimization/knapsack_construct", "optimization/online_bin_packing_construct"]
    variants = [f"num_steps={n},num_candidates={n},num_proposals={n}" for n in (2, 3)]
    searches = [jobs(score, tasks, range(6), trainer_id="PrioritySearch", variant=variant,
                     resolved_trainer_kwargs={"n": variant}) for variant in variants]  # fmt: skip
    make_experiment(tmp_path, "a", [*jobs(score, tasks, range(6)), *searches[0], *searches[1]])
    monkeypatch.setattr("trace_bench.display.console.screen", lambda: Screen(width, styled=False))
    compare_command(["a"], by="trainer", runs_dir=tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines), max(lines, key=len)
    assert [line for line in lines if line.startswith("PrioritySearch ")] == [f"PrioritySearch {v}" for v in variants]
    for end in ("knapsack_construct", "packing_construct", "these 2 tasks", "tasks like these"):
        assert sum(end in line and line.endswith("equal") for line in lines) == 2, end


def test_trainers_with_several_variants_are_split_by_them_and_said_to_be(tmp_path: Path) -> None:
    searches = [jobs(score, ["x"], range(6), trainer_id="P", variant=f"n={n}",
                     resolved_trainer_kwargs={"n": n}) for n in (2, 3)]  # fmt: skip
    make_experiment(tmp_path, "a", [*jobs(score, ["x"], range(6)), *searches[0], *searches[1]])
    done = compare(tmp_path, "a", "--by", "trainer")
    assert done.returncode == 0, done.stderr
    assert "the parts are by trainer,variant" in done.stdout.splitlines()[1]
    assert "P n=2 " in done.stdout and "P n=3 " in done.stdout
    named = json.loads(compare(tmp_path, "a", "--by", "trainer", "--json").stdout)["parts"]
    assert [part["name"].partition(",")[0] for part in named] == ["trainer=NoOp", "trainer=P", "trainer=P"]
    by_variant = compare(tmp_path, "a", "--by", "trainer,variant")
    assert "the parts are by" not in by_variant.stdout
    assert by_variant.stdout.splitlines()[1:] == done.stdout.splitlines()[2:]


def test_two_axes_are_warned_of_and_strict_refuses_without_a_result(folder: Path) -> None:
    arguments = ["a", "b", "--where", "trainer=NoOp"]
    warned = compare(folder, *arguments)
    assert warned.returncode == 0 and "WARNING: 'a' and 'b' differ in 2 axes (model, code)" in warned.stdout
    assert warned.stdout.index("WARNING") < warned.stdout.index("verdict")
    for form in ("table", "json", "md"):
        refused = compare(folder, *arguments, "--strict", "--format", form)
        assert (refused.returncode, refused.stdout) == (ExitCode.JOB_FAILED, "")
        assert refused.stderr.startswith("error: 'a' and 'b' differ in 2 axes (model, code)")
    fair = compare(folder, "a", "--by", "trainer", "--strict")
    assert fair.returncode == 0 and "verdict" in fair.stdout


def test_json_has_everything(folder: Path) -> None:
    done = compare(folder, "a", "b", "--where", "trainer=NoOp", "--json", "--level", "0.9")
    value = json.loads(done.stdout)
    assert value["metric"]["name"] == "normalised_test" and value["alpha"] == 0.1 and value["tests"] == 2
    (one,) = value["comparisons"]
    assert [axis["name"] for axis in one["axes"] if axis["counts"]] == ["model", "code"] and "2 axes" in one["warning"]
    assert one["tasks"][0]["effect"]["n"] == 6 and one["tasks"][0]["verdict"] == "tie"
    assert value["parts"][0]["outcomes"] == {"ok": 12} and value["detection"] and len(value["methods"]) > 5
    assert compare(folder, "a", "b", "--where", "trainer=NoOp", "--format", "json").returncode == 0


def test_markdown_holds_whatever_names_hold(tmp_path: Path) -> None:
    evil = "a|b<script>*_[x](y)`\x1b[31m\n# c"
    rows = [*jobs(score, ["x"], range(3)), *jobs(score, ["x"], range(3), trainer_id=evil, variant=evil)]
    rows += [job(evil, 0, 0.1), job(evil, 0, 0.2, trainer_id=evil)]
    make_experiment(tmp_path, "a", rows)
    done = compare(tmp_path, "a", "--by", "trainer", "--format", "md", "--explain")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout and "<script>" not in done.stdout and "\n# c" not in done.stdout
    for line in done.stdout.splitlines():
        if line.startswith("|"):
            plain = line.replace("\\|", "")
            assert plain.count("|") in (5, 6, 12), line  # columns of the three tables
    assert r"a\|b&lt;script&gt;\*\_" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a",), "needs two parts at least"),
        (("a", "nothing"), "there is no run 'nothing'"),
        (("a", "b", "--format", "tex"), "--format: there is no 'tex'"),
        (("a", "b", "--level", "95"), "--level"),
        (("a", "b", "--metric", "f1"), "--metric: there is no 'f1'"),
        (("a", "b", "--where", "seed"), "is no condition"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    done = compare(folder, *arguments)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith("error: ") and says in done.stderr and done.stderr.count("\n") == 1


def test_a_damaged_file_is_named(folder: Path) -> None:
    RunLayout(folder / "b").manifest.write_text("{")
    done = compare(folder, "a", "b", "--where", "trainer=NoOp")
    assert done.returncode == 1 and str(folder / "b/meta/manifest.json") in done.stderr
    make_experiment(folder, "c", jobs(score, ["x"], [1]))
    RunLayout(folder / "c").config_snapshot.write_text("a: [")
    done = compare(folder, "a", "c", "--where", "trainer=NoOp")
    assert done.returncode == 1 and "config.snapshot.yaml" in done.stderr and done.stderr.count("\n") == 1


def test_a_real_run(recorded: RunLayout) -> None:
    done = here("compare", str(recorded.root), "--by", "trainer,variant", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert len(value["comparisons"]) == 2 and value["metric"]["name"] == "score_best"
    knapsack = [task for one in value["comparisons"] for task in one["tasks"] if task["task_id"].startswith("llm4ad")]
    assert [task["verdict"] for task in knapsack] == ["win", "win"]
    own = here(
        "compare", str(recorded.root), "--where", "trainer=NoOp,task=*convex",
        "--where", "variant=num_steps?2*,task=*convex", "--metric", "metric_best:base_loss",
    )  # fmt: skip
    assert own.returncode == 0 and "multiobjective_convex ↓" in own.stdout
    only = here("compare", str(recorded.root), "--by", "variant", "--where", "task=llm4ad*", "--strict")
    assert only.returncode == 0 and "normalised held-out score of the best state" in only.stdout


def test_a_run_of_the_first_version() -> None:
    early = str(REPOSITORY / "tests/data/run-v1/20260102-030405-version1")
    done = here("compare", early, "--by", "trainer,variant", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["comparisons"][0]["tasks"], done.stderr
