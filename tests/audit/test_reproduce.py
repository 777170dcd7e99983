"""``reproduce``: a run made again somewhere else, and what is said where it comes out otherwise; without an engine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.analysis.folders import job_id, row
from tests.audit.liking import write_task
from tests.execution.bench import fingerprints_of_files
from tests.integration.cli import cli, write_config
from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ImageRecord, Lock
from trace_bench.artifacts.reproduction import Reproduction
from trace_bench.audit import determinants
from trace_bench.audit.determinants import PinnedImages
from trace_bench.audit.reproduce import BITS_LOST, snapshot_here
from trace_bench.cli.app import run_app
from trace_bench.cli.displays import Lines
from trace_bench.cli.reproduce import _of
from trace_bench.config import parse_config
from trace_bench.errors import EnvironmentUnavailable, TraceBenchError
from trace_bench.execution.events import JobSkipped, JobStarted, RunStarted
from trace_bench.images.lock import ImagePin
from trace_bench.planning.recording import find_recording
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.base import Traits

CONFIG: dict[str, Any] = {
    "tasks": ["internal:liking"],
    "trainers": [{"id": "NoOp"}, {"id": "PrioritySearch", "params": {"num_steps": 1, "num_proposals": 2}}],
    "seeds": [1, 2], "backend": "local", "run_id": "first", "max_workers": 2, "fail_fast": True,
    "sandbox": {"allow_weaker": ["read_only_root"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a task, and a run of it whose scorer asked a model."""
    folder = tmp_path_factory.mktemp("place")
    write_task(folder / "tasks")
    config = write_config(folder, **CONFIG)
    done = cli("run", "--config", str(config), "--root", str(folder / "tasks"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunLayout:
    """A copy of the run in ``runs`` of the current folder, which the task lies beside."""
    shutil.copytree(place / "runs" / "first", tmp_path / "runs" / "first")
    shutil.copytree(place / "tasks", tmp_path / "tasks")
    monkeypatch.chdir(tmp_path)
    return RunLayout(tmp_path / "runs" / "first")


Reproduce = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def reproduce(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reproduce:
    """The command, in this process; its exit code and report."""

    def called(*arguments: str, root: str | None = "tasks", backend: str = "local") -> tuple[int, dict[str, Any]]:
        roots = () if root is None else ("--root", root)
        words = ["trace-bench", "reproduce", *arguments, *roots, "--backend", backend, "--json"]
        monkeypatch.setattr("sys.argv", words)
        capsys.readouterr()
        code = run_app()
        return code, json.loads(capsys.readouterr().out)

    return called


def verdicts(report: dict[str, Any]) -> list[str]:
    return [job["verdict"] for job in report["jobs"]]


def edit(path: Path, **changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **changes}))
    return data


def a_job(run: RunLayout, trainer: str = "PrioritySearch") -> str:
    rows = [json.loads(path.read_text()) for path in sorted(run.jobs.glob("*/results.json"))]
    return next(str(row["job_id"]) for row in rows if row["trainer_id"] == trainer)


# ----------------------------------------------------------------------------------------------------- equal runs


def test_a_run_comes_out_equal_in_a_fresh_folder_with_other_workers(
    run: RunLayout, tmp_path: Path, reproduce: Reproduce
) -> None:
    before = fingerprints_of_files(run.root)
    code, report = reproduce("first", "--workers", "3")
    assert code == 0 and verdicts(report) == ["equal"] * 4 and report["ok"]
    assert all(pin["same"] and not pin["says"] for pin in report["pins"])
    folder = tmp_path / "reproductions" / "first-1"
    path = folder / "reproduction.json"
    assert report["report"] == str(path.relative_to(tmp_path))
    schema.validate("reproduction", json.loads(path.read_text()))
    assert Reproduction.model_validate_json(path.read_text()).counts["equal"] == 4
    assert (folder / report["run_id"] / "results.csv").is_file()
    assert fingerprints_of_files(run.root) == before
    code, again = reproduce(str(folder / report["run_id"]), "--job", report["jobs"][3]["job_id"][:6])
    assert code == 0 and verdicts(again) == ["equal"], "a run that is a replay is a run like any other"


def test_an_archive_is_made_again_without_the_run(
    run: RunLayout, tmp_path: Path, reproduce: Reproduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["trace-bench", "export", "first", "-o", "published.tar.gz"])
    assert run_app() == 0
    shutil.rmtree(run.root)
    code, report = reproduce("published.tar.gz", "-o", "out", "--where", "trainer=NoOp,seed=1|3")
    assert code == 0 and verdicts(report) == ["equal"]
    assert report["recorded_from"] == str(tmp_path / "out" / "recorded" / "first")
    assert (tmp_path / "out" / report["run_id"]).is_dir()


def test_saved_states_score_the_same_with_the_calls_that_scoring_made_then(
    run: RunLayout, tmp_path: Path, reproduce: Reproduce
) -> None:
    for path in run.jobs.glob("*/llm.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        asked = [(line["phase"], line["request_hash"]) for line in lines if line["slot"] is None]
        assert {h for phase, h in asked if phase == "train"} & {h for phase, h in asked if phase == "score"}
        for line in lines:  # what training was answered to the same requests is no business of the scorer
            if line["phase"] == "train":
                line["response"]["id"] = "chatcmpl-ffff"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, report = reproduce("first", "--score-only")
    assert code == 0 and verdicts(report) == ["equal"] * 4 and report["run_id"] is None
    schema.validate("reproduction", json.loads((tmp_path / report["report"]).read_text()))
    scores = {(s["state"], s["split"], s["file"]): s for s in report["jobs"][2]["scores"]}
    row = json.loads(run.job(report["jobs"][2]["job_id"]).results.read_text())
    assert scores["best", "validate", "results.json"]["found"] == row["score_best"]
    assert scores["best", "test", "results.json"]["found"] == row["score_test"] is not None
    assert ("final", "test", "result.json") in scores, "the scorer's own file knows more"


def test_what_the_run_says_of_how_jobs_are_kept_is_not_taken_over(run: RunLayout) -> None:
    recording = find_recording("first", Path("runs"), "here")
    plain = snapshot_here(recording, recording.jobs)
    assert recording.snapshot["backend"] == "local" and recording.snapshot["fail_fast"]
    assert not plain.keys() & {"backend", "fail_fast", "images", "retries"}
    assert recording.snapshot["sandbox"]["allow_weaker"] and plain["sandbox"]["allow_weaker"] == []
    weaker = {"id": "internal:liking", "sandbox": {"allow_weaker": ["seccomp"], "memory": "1GiB"}}
    data = {**recording.snapshot, "task_roots": ["tasks"], "data_root": "tasks", "tasks": [weaker], "mirrors": "mlflow"}
    run.config_snapshot.write_text(json.dumps(data).replace("_roots", "-roots").replace("allow_weaker", "allow-weaker"))
    recording = find_recording("first", Path("runs"), "here")
    plain = snapshot_here(recording, recording.jobs)
    assert not plain.keys() & {"task_roots", "task-roots", "data_root", "mirrors"}
    assert plain["sandbox"]["allow_weaker"] == [] and "allow-weaker" not in plain["sandbox"]
    assert [entry["sandbox"] for entry in plain["tasks"]] == [{"memory": "1g"}]


def test_budgets_end_again_where_they_ended_and_failures_fail_again(
    place: Path, tmp_path: Path, reproduce: Reproduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search = {"id": "PrioritySearch", "params": {"num_steps": 5, "num_proposals": 2}}
    changes = {"tasks": ["internal:numeric_param", "internal:liking"], "trainers": [search], "seeds": [1]}
    config = write_config(tmp_path, **{**CONFIG, **changes, "budget": {"calls": 3}, "fail_fast": False})
    done = cli("run", "--config", str(config), "--root", str(place / "tasks"), cwd=tmp_path)
    rows = [json.loads(path.read_text()) for path in tmp_path.glob("runs/first/jobs/*/results.json")]
    ended = {row["task_id"]: (row["status"], row["stop_reason"], row["failure_kind"]) for row in rows}
    assert ended["internal:numeric_param"] == ("ok", "budget", None), done.stderr
    assert ended["internal:liking"][::2] == ("failed", "train_error"), "its agent asks for more than that"
    root = str(place / "tasks")
    code, report = reproduce("first", root=root)
    assert code == 0 and verdicts(report) == ["equal", "equal"]
    code, report = reproduce("first", "--score-only", root=root)
    assert code == 0 and verdicts(report) == ["equal", "equal"], "a failed search is scored, whatever it has spent"

    job = RunLayout(tmp_path / "runs" / "first").job(report["jobs"][0]["job_id"])
    row = edit(job.results, score_initial=-2.0)
    assert (row["score_initial"], job.initial_state.read_text()) == (-3.0, "guess: 0.0\n")
    job.initial_state.write_text("guess: 1.0\n")  # a better start, with the score that it has
    code, report = reproduce("first", "--score-only", "--job", job.job_id, root=root)
    assert code == 1 and [d["what"] for d in report["jobs"][0]["differences"]] == ["initial_state"]

    (failed,) = (row["job_id"] for row in rows if row["status"] == "failed")
    other = RunLayout(tmp_path / "runs" / "first").job(failed)
    edit(other.results, **{f"score_{name}": None for name in ("initial", "best", "final", "test")})
    for path in other.root.glob("attempts/*/out/result.json"):
        edit(path, scores={})
    code, report = reproduce("first", "--score-only", "--job", failed, root=root)
    assert code == 1 and verdicts(report) == ["not_replayed"]
    assert report["jobs"][0]["why"] == "it has no scores to compare with: train_error"


def test_jobs_that_nobody_asked_for_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notify = _of({job_id(1)}, Lines())
    view = partial(SimpleNamespace, task_id="t", trainer_id="T", variant="", model="m", reason="")
    jobs: Any = [view(job_id=job_id(i), seed=i) for i in range(3)]
    notify(RunStarted("r", RunLayout(tmp_path), jobs, 1))
    notify(JobStarted(jobs[1], adopted=False))
    for job in jobs:
        notify(JobSkipped(job, row(job.seed)))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and said[0] == "run    r  1 jobs" and said[2].endswith("[1/1]")


# ------------------------------------------------------------------------------------------------ what is otherwise


def test_a_change_in_the_code_of_a_task_is_reported_as_that(
    run: RunLayout, tmp_path: Path, reproduce: Reproduce, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = tmp_path / "tasks" / "liking" / "problem.py"
    problem.write_text(problem.read_text().replace("BONUS = 0.0", "BONUS = 0.5"))
    for only in ((), ("--score-only",)):
        code, report = reproduce("first", "--where", "trainer=NoOp,seed=1", *only)
        (job,) = report["jobs"]
        assert (code, job["verdict"]) == (1, "differs")
        (reason,) = job["reasons"]
        assert reason.startswith("the task internal:liking has changed since: the hash of its folder was ")
    assert {pin["what"] for pin in report["pins"] if not pin["same"]} == {"task"}


def test_the_command_says_what_differs_and_what_may_be_why(run: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "tasks" / "liking" / "problem.py").open("a").write("\nCandidate = None\n")
    found = edit(run.job(job := a_job(run)).results, score_best=7.0)
    done = cli("reproduce", "first", "--root", "tasks", "--backend", "local", "--job", job, "--score-only")
    assert done.returncode == 1, done.stderr
    said = done.stdout
    assert "  other    task internal:liking: the task internal:liking has changed since" in said
    assert f"differs       {job}  internal:liking PrioritySearch" in said
    assert f"best state, validate, score (results.json): was 7.0, is {found['score_best']!r}" in said
    assert "may be because the task internal:liking has changed since" in said
    assert "0 of 1 jobs' scores came out equal (0 to the bit), 1 differ" in said


def test_other_code_of_the_worker_and_other_limits_are_told_apart(run: RunLayout, reproduce: Reproduce) -> None:
    job = a_job(run, "NoOp")
    edit(run.job(job).results, score_best=7.0)
    edit(run.lock, sources_hash="ab" * 32)
    _, report = reproduce("first", "--job", job, "--score-only")
    assert [pin["what"] for pin in report["pins"] if not pin["same"]] == ["code", "limits"]
    assert report["jobs"][0]["reasons"][0].startswith("the code that runs in sandboxes")


def test_a_number_that_is_off_by_less_than_the_tolerance_is_told_apart(run: RunLayout, reproduce: Reproduce) -> None:
    job = a_job(run, "NoOp")
    row = json.loads(run.job(job).results.read_text())
    edit(run.job(job).results, score_best=row["score_best"] * (1 + 1e-12))
    for mode in ((), ("--score-only",)):
        code, report = reproduce("first", "--job", job, *mode)
        assert code == 0 and verdicts(report) == ["within"] and report["jobs"][0]["tolerance"] == 1e-9
        assert report["jobs"][0]["why"] == ("" if mode else BITS_LOST)
    edit(run.job(job).meta, tolerance=10.0)  # what a run says of itself is not asked
    edit(run.job(job).results, score_best=row["score_best"] * (1 + 1e-6))
    assert reproduce("first", "--job", job, "--score-only")[0] == 1


# ------------------------------------------------------------------------------------------------------- forgeries


def forged(run: RunLayout, job_id: str, gain: float = 1.0) -> float:
    """Raise the best score of a job in every file that has it, as a careful forger would; what it was."""
    job = run.job(job_id)
    row = json.loads(job.results.read_text())
    was = float(row["score_best"])
    edit(job.results, score_best=was + gain, score_claimed=was + gain)
    (path,) = job.attempts.glob("*/out/result.json")
    result = json.loads(path.read_text())
    scores = result["scores"]["best"]
    scores["validate"] += gain
    for example in scores["examples"]:
        example["score"] += gain if example["split"] == "validate" else 0.0
    if "best" in result["integrity"]["claims"]:
        result["integrity"]["claims"]["best"]["score"] += gain
    path.write_text(json.dumps(result))
    history = [json.loads(line) for line in job.state_history.read_text().splitlines()]
    for line in history:
        line["best_score"] += gain if line["best_score"] == was else 0.0
    job.state_history.write_text("".join(json.dumps(line) + "\n" for line in history))
    return was


@pytest.mark.parametrize("mode", [("--score-only",), ()])
def test_a_score_that_was_raised_everywhere_is_found(
    run: RunLayout, reproduce: Reproduce, mode: tuple[str, ...]
) -> None:
    job = a_job(run)
    was = forged(run, job)
    seed = json.loads(run.job(job).results.read_text())["seed"]
    code, report = reproduce("first", "--where", f"seed={seed}", *mode)
    found = {j["job_id"]: j for j in report["jobs"]}
    assert code == 1 and found[job]["verdict"] == "differs" and found[job]["reasons"] == []
    if mode:
        assert {j["verdict"] for j in report["jobs"]} == {"equal", "differs"}
        (wrong,) = [s for s in found[job]["scores"] if s["verdict"] == "differs"]
        assert (wrong["state"], wrong["split"], wrong["recorded"], wrong["found"]) == ("best", "validate", was + 1, was)
    else:
        assert found[job]["differences"][0]["what"] == "score_best"


def test_a_score_that_only_the_scorers_own_file_has_is_checked_too(run: RunLayout, reproduce: Reproduce) -> None:
    job = a_job(run)
    (path,) = run.job(job).attempts.glob("*/out/result.json")
    result = json.loads(path.read_text())
    result["scores"]["initial"]["test"] -= 1.0
    path.write_text(json.dumps(result))
    code, report = reproduce("first", "--job", job, "--score-only")
    (wrong,) = [s for s in report["jobs"][0]["scores"] if s["verdict"] == "differs"]
    assert code == 1 and (wrong["state"], wrong["split"], wrong["file"]) == ("initial", "test", "result.json")


def test_a_start_that_is_not_where_the_problem_starts_is_found(run: RunLayout, reproduce: Reproduce) -> None:
    job = a_job(run, "NoOp")
    for state in (run.job(job).initial_state, run.job(job).best_state, run.job(job).final_state):
        state.write_text("x: -9.0\n")
    code, report = reproduce("first", "--job", job, "--score-only")
    assert code == 1
    # What it asks the model then is not what scoring had asked.
    assert "not_recorded" in report["jobs"][0]["why"] and report["jobs"][0]["verdict"] == "differs"


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        ("x: [1, 2]\n", "not_replayed", "must be text or a number"),
        ("x: {a: &a [1], b: *a}\n", "not_replayed", "must be text or a number"),
        ("[" * 1000, "not_replayed", "it is nested too deeply"),
        ("x: 1.0\ny: 2.0\n", "differs", "the best state names ['x', 'y']"),
        ("x: gone\n", "differs", "x of the best state is no float"),
    ],
)
def test_states_that_are_none_cost_their_job_alone(
    run: RunLayout, reproduce: Reproduce, text: str, verdict: str, said: str
) -> None:
    job = a_job(run)
    run.job(job).best_state.write_text(text)
    code, report = reproduce("first", "--job", job, "--score-only")
    assert code == 1 and report["jobs"][0]["verdict"] == verdict and said in report["jobs"][0]["why"]


# --------------------------------------------------------------------------------------- what cannot be made again


def test_what_cannot_be_replayed_is_said_job_by_job(run: RunLayout, reproduce: Reproduce) -> None:
    rows = sorted(run.jobs.glob("*/results.json"))
    broke, gone, damaged, good = [path.parent.name for path in rows]
    edit(run.job(broke).results, status="failed", failure_boundary="provider", failure_kind="provider_error")
    run.job(gone).results.unlink()
    run.results_csv.unlink()
    cassette = run.job(damaged).cassette
    cassette.write_text(cassette.read_text().replace('"n":2', '"n":9', 1))
    code, report = reproduce("first")
    found = {job["job_id"]: job for job in report["jobs"]}
    assert code == 1 and report["counts"] == {"equal": 1, "within": 0, "differs": 0, "not_replayed": 3}
    assert found[broke]["why"] == "it failed at provider (provider_error), which no replay repeats"
    assert found[gone]["why"] == "it never ran to an end"
    assert "line 2: the lines are not in order" in found[damaged]["why"]
    assert found[good]["verdict"] == "equal"


def test_without_the_salt_held_out_scores_cannot_be_checked(run: RunLayout, reproduce: Reproduce) -> None:
    edit(run.lock, salt=None)
    job = a_job(run)
    code, report = reproduce("first", "--job", job, "--score-only")
    (told,) = report["jobs"]
    assert code == 1 and told["verdict"] in ("not_replayed", "differs")
    assert {s["verdict"] for s in told["scores"] if s["split"] == "test"} <= {"not_replayed"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gone",), "argument RUN: there is no run 'gone' in runs"),
        (("first", "-o", "runs/first/again"), "lies inside the recorded run; name a folder elsewhere with --output"),
        (("first", "-o", "tasks"), "option --output: tasks exists, and is not an empty folder; name a new one"),
        (("first", "--job", "zzz"), "'zzz'"),
        (("first", "--where", "seed=77"), "option --where: no job of run first matches 'seed=77'"),
        (("first", "--where", "speed=1"), "jobs have no 'speed'"),
        (("first", "--workers", "0"), "max_workers"),
        (("first", "--allow-weaker", "fire"), "there is no control 'fire'"),
        (("no.tar.gz",), "no.tar.gz: "),
        (("linked",), "jobs/escape is a link, which no run contains; remove it"),
        (("piped",), "meta/lock.json is a pipe, which no run contains; remove it"),
    ],
)
def test_mistakes_are_sentences_and_make_nothing(
    run: RunLayout, tmp_path: Path, reproduce: Reproduce, arguments: tuple[str, ...], said: str
) -> None:
    Path("no.tar.gz").write_bytes(b"\x1f\x8b no archive")
    shutil.copytree(run.root, tmp_path / "runs" / "linked")
    (tmp_path / "runs" / "linked" / "jobs" / "escape").symlink_to("/etc")
    piped = RunLayout(Path(shutil.copytree(run.root, tmp_path / "runs" / "piped")))
    piped.lock.unlink()
    os.mkfifo(piped.lock)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TraceBenchError) as caught:
        reproduce(*arguments)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == []


def test_a_task_whose_folder_is_not_here_is_asked_for_and_none_that_the_run_brings_is_taken(
    run: RunLayout, reproduce: Reproduce
) -> None:
    brought = str(shutil.copytree("tasks", run.root / "jobs" / "tasks"))
    text = run.config_snapshot.read_text()
    run.config_snapshot.write_text(text.replace("task_roots: []", f"task_roots: ['{brought}']"))
    assert brought in run.config_snapshot.read_text()
    with pytest.raises(TraceBenchError) as caught:
        reproduce("first", root=None)
    assert "there is no task 'internal:liking' here; a run does not hold its tasks: name the folder" in str(
        caught.value
    )
    assert "with --root FOLDER, or leave its jobs out with trace-bench reproduce --where" in str(caught.value)


# ---------------------------------------------------------------------------------------------------------- images

KEY = "c" * 64
DIGEST = f"registry.example/trace-bench/core@sha256:{'d' * 64}"


def image(
    monkeypatch: pytest.MonkeyPatch, *, pull: bool, found: Callable[..., ImagePin]
) -> tuple[ImageRecord, set[str]]:
    """The image of core, of a run whose lock names one by its digest."""
    here = ImageRecord(family="core", ref="trace-bench/core:here", key="b" * 64)
    then = ImageRecord(family="core", ref=DIGEST, key=KEY, repo_digest=DIGEST)
    monkeypatch.setattr(determinants, "image_source", lambda *_, **__: lambda family: here)
    monkeypatch.setattr(determinants, "fetch", found)
    lock = Lock(run_id="r", config_hash="h", code_version="1", sources_hash="s", images={"core": then}, tasks={})
    images = PinnedImages(lock, pull=pull)
    config = parse_config({"tasks": ["internal:numeric_param"]})

    class Contained:
        name = "docker"
        traits = Traits()

    source = images.source(config, Contained(), build=True, say=lambda _: None, warn=lambda _: None)  # type: ignore[arg-type]
    return source("core"), images.pulled


def pulled(digest: str, **_: Any) -> ImagePin:
    return ImagePin("core", digest, digest.rpartition("@")[2], "sha256:1", "base", "2026", digest, parts={})


def unreachable(digest: str, **_: Any) -> ImagePin:
    raise EnvironmentUnavailable("the registry does not answer")


def test_an_image_comes_by_its_digest_where_the_registry_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path))
    found, by_digest = image(monkeypatch, pull=True, found=pulled)
    assert found.ref == DIGEST and by_digest == {"core"}
    assert image(monkeypatch, pull=True, found=unreachable)[0].ref == "trace-bench/core:here"
    assert image(monkeypatch, pull=False, found=pulled)[0].ref == "trace-bench/core:here"
    assert get_backend("local").name == "local"
