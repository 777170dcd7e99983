"""What the supervisor's result says of how far its scores are to be believed."""

from __future__ import annotations

from pathlib import Path

from tests.worker.host import Outcome
from tests.worker.support import run
from trace_bench.artifacts.outputs import WorkerIntegrity, WorkerResult
from trace_bench.worker import scorer_files

CODE = """
PLAIN = "def f(x): return x"
ODD = "import os, struct, sys\\\\nnonce = sys._getframe(2).f_locals['nonce']\\\\n" + (
    "os.write(3, struct.pack('<IBQ', 5, 5, nonce) + b'l' + struct.pack('<I', 0))\\\\ndef f(x): return x"
)

def build(context):
    def guide(query, response, reference):
        with context.programs.open(response, "f") as program:
            return program(1.0), ""
    code = (Parameter("code", PLAIN, "code", entry="f"),)
    return problem(guide, parameters=code, train=examples(["a", "b", "c"]))

class Trainer(Trainer):
    def train(self, problem, params, context):
        for source in (PLAIN, ODD, ODD):
            rollouts = context.evaluate({"code": source}, [0, 1, 2], "train")
            record(context, step=0, candidate="c", state={"code": source}, rollouts=rollouts, split="train")
        return {"code": ODD}
"""


def integrity(got: Outcome) -> WorkerIntegrity:
    assert got.result is not None, got.stderr
    return WorkerResult.model_validate(got.result).integrity


def test_tallies_and_files_are_recorded_and_a_forged_frame_is_a_failure_of_its_candidate(tmp_path: Path) -> None:
    got = run(tmp_path, CODE.replace("\\\\", "\\"))
    said = integrity(got)
    assert got.result is not None
    failed = {k: [e["failed"] for e in got.result["scores"][k]["examples"]] for k in ("initial", "final")}
    assert failed == {"initial": [False] * 3, "final": [True] * 3}
    # Three examples of one state and twice of another in training; of two different states in scoring.
    assert said.candidates["train"].opened == 9 and said.candidates["score"].opened == 6
    assert said.candidates["train"].cpu_seconds > 0 and said.candidates["build"].opened == 0
    assert {(t.needs, t.unswept, t.over_cpu) for t in said.candidates.values()} == {((), 0, 0)}
    assert said.scorer_files is not None and said.scorer_files.unchanged and said.scorer_files.files > 40


def test_scores_are_withheld_if_a_file_that_they_depend_on_changed(tmp_path: Path) -> None:
    got = run(
        tmp_path,
        """
        import builtins
        from pathlib import Path
        def build(context):
            def guide(query, response, reference):
                if context.test_seed is not None:
                    (context.task_dir / "data.txt").write_text("other")
                return 1.0, ""
            return problem(guide)
        """,
    )
    assert got.result is not None and got.result["failure"]["boundary"] == "harness"
    assert (got.result["status"], got.result["failure"]["kind"]) == ("failed", "scorer_changed")
    assert got.result["scores"] == {}
    said = integrity(got)
    assert said.scorer_files is not None and not said.scorer_files.unchanged


def test_the_hash_of_files_sees_names_contents_and_modules(tmp_path: Path) -> None:
    task, package = tmp_path / "task", tmp_path / "package"
    for folder in (task / "data", package / "worker", package / "suites" / "internal"):
        folder.mkdir(parents=True)
    (task / "data" / "a").write_bytes(b"12")
    (package / "worker" / "score.py").write_text("x = 1")
    seen = [scorer_files.digest(task, package)]
    for change in (
        lambda: (task / "data" / "a").write_bytes(b"13"),
        lambda: (task / "data" / "a").rename(task / "data" / "b"),
        lambda: (task / "c").touch(),
        lambda: (package / "worker" / "score.py").write_text("x = 2"),
        lambda: (package / "suites" / "internal" / "new.py").touch(),
        lambda: (task / "data" / "b").unlink(),
        lambda: (task / "d").symlink_to("/nowhere"),
    ):
        change()
        seen.append(scorer_files.digest(task, package))
    assert len({s["sha256"] for s in seen}) == len(seen)
    assert scorer_files.digest(task, package) == seen[-1]


def test_a_score_that_is_no_number_is_a_warning_of_the_job_once(tmp_path: Path) -> None:
    got = run(
        tmp_path,
        """
        def build(context):
            def by_distance(query, response, reference):
                return (float("nan") if query is None else 1.0), ""
            return problem(by_distance, train=examples(["a", "b"]))
        class Trainer(Trainer):
            def train(self, problem, params, context):
                for _ in range(3):
                    print("SCORES", [(r.score, r.failed) for r in context.evaluate({"x": 1.0}, [0, 1], "train")])
                return {"x": 1.0}
        """,
    )
    assert got.result is not None and got.result["status"] == "ok"
    assert "SCORES [(-100.0, True), (-100.0, True)]" in got.log
    rows = got.result["scores"]["final"]["examples"]
    assert [(r["score"], r["failed"]) for r in rows] == [(-100.0, True)] * 2
    (warning,) = got.result["warnings"]
    assert "by_distance" in warning and "'a'" in warning and "nan" in warning
