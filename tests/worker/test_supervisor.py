"""One job through the real supervisor, spawner and phases, without a container (see tests/integration for those)."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.worker.host import Outcome, WorkerProcess, job
from tests.worker.support import run
from trace_bench.artifacts.outputs import BuildReport, Event, HistoryLine, States, WorkerResult
from trace_bench.worker import hardware
from trace_bench.worker.control_stream import MAX_HEADER, Message
from trace_bench.worker.exit_codes import SPAWNER_KILLED
from trace_bench.worker.recorder import Recorder

CLIMB = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        state = problem.initial_state()
        for i in range(5):
            state = {"x": float(i)}
            rollouts = context.evaluate(state, [0], "train")
            record(context, step=i, candidate=f"c{i}", parent=None, state=state, rollouts=rollouts, split="train")
        return state
"""


def failure(outcome: Outcome) -> tuple[str, str]:
    assert outcome.result is not None, outcome.stderr
    return outcome.result["failure"]["boundary"], outcome.result["failure"]["kind"]


def test_a_job_is_scored_by_the_score_phase_and_its_files_fit_their_schemas(tmp_path: Path) -> None:
    got = run(tmp_path, CLIMB)
    assert got.code == 0 and got.result is not None and got.result["status"] == "ok"
    result = WorkerResult.model_validate(got.result)
    assert result.scores.initial and result.scores.best and result.scores.final
    assert (result.scores.initial.train, result.scores.best.train, result.scores.final.train) == (-3.0, 0.0, -1.0)
    assert got.states == {"initial": {"x": 0.0}, "best": {"x": 3.0}, "final": {"x": 4.0}}
    States.model_validate(got.states)
    lines = [HistoryLine.model_validate_json(x) for x in got.files["state_history.jsonl"].splitlines()]
    assert [x.best_score for x in lines] == [-3.0, -2.0, -1.0, 0.0, 0.0]
    events = [Event.model_validate_json(x).event for x in got.files["events.jsonl"].splitlines()]
    assert events.index("train.end") < events.index("score") < events.index("job.end")
    assert json.loads(got.files["result.json"]) == got.result


def test_what_the_host_is_told_of_a_step_is_what_the_file_holds(tmp_path: Path) -> None:
    """Half of a surrogate pair would end the stream, and be refused in the file."""
    recorder = Recorder(tmp_path, stdout_bytes=100)
    told = recorder.history({"candidate": "c\ud800", "parameters": {"x": "a\udfffb", "\ud83d\ude00": 1.5}})
    assert told["candidate"] == "c?" and told["parameters"]["x"] == "a?b"
    (line,) = (tmp_path / "state_history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == told
    json.dumps(told, ensure_ascii=False).encode("utf-8")


def test_the_score_is_not_what_training_claims(tmp_path: Path) -> None:
    got = run(
        tmp_path,
        """
        class Trainer(Trainer):
            def train(self, problem, params, context):
                state = {"x": 9.0}
                record(context, step=0, candidate="liar", parent=None, state=state, split="train",
                             rollouts=[Rollout("a", 1e9, "perfect")])
                return state
        """,
    )
    assert got.result is not None
    assert got.history[0]["score"] == 1e9
    assert got.result["scores"]["best"]["train"] == -6.0


def test_the_hardware_is_what_the_supervisor_sees(tmp_path: Path) -> None:
    got = run(tmp_path, CLIMB)
    assert got.result is not None and got.result["hardware"] == hardware.described()
    assert got.result["hardware"]["cpus"] > 0


def test_phases_are_processes_and_the_test_seed_reaches_only_the_scorer(tmp_path: Path) -> None:
    got = run(
        tmp_path,
        """
        def build(context):
            print("phase", os.getpid(), "seed", context.test_seed)
            return problem(lambda q, r, ref: (float(r), ""))
        """,
    )
    words = [line.split() for line in got.log.splitlines() if line.startswith("phase")]
    assert len({w[1] for w in words}) == 3
    assert [w[3] for w in words].count("4242") == 1 and [w[3] for w in words].count("None") == 2


def test_the_held_out_seed_is_asked_for_after_training(tmp_path: Path) -> None:
    got = run(tmp_path, CLIMB)
    events = [e["event"] for e in got.events]
    train_end = [e for e in got.events if e["event"] == "phase.end" and e["phase"] == "train"]
    assert got.events.index(train_end[0]) < events.index("train.end")


def test_the_same_seed_gives_the_same_result_and_another_one_differs(tmp_path: Path) -> None:
    code = """
    import random
    class Trainer(Trainer):
        def train(self, problem, params, context):
            return {"x": random.uniform(-5, 5)}
    """
    first, again = run(tmp_path, code), run(tmp_path, code)
    other = run(tmp_path, code, over={"seed": 2})
    assert first.states["final"] == again.states["final"] != other.states["final"]


@pytest.mark.parametrize("preload", ["", "numpy"])
def test_python_numpy_and_the_problem_get_the_seed_of_the_job(tmp_path: Path, preload: str) -> None:
    code = """
    def build(context):
        import random, numpy
        print("drawn", context.seed, random.random(), numpy.random.random())
        return problem(lambda q, r, ref: (float(r), ""))
    """

    def drawn(seed: int) -> list[str]:
        got = run(tmp_path, code, over={"seed": seed}, env={"TRACE_BENCH_PRELOAD": preload})
        return [line for line in got.log.splitlines() if line.startswith("drawn")]

    first, again, other = drawn(7), drawn(7), drawn(8)
    python, numpy = random.Random(7), np.random.RandomState(7)
    assert first == again == [f"drawn 7 {python.random()} {numpy.random_sample()}"] * 3, "in each phase"
    assert all(one != two for one, two in zip(first[0].split()[1:], other[0].split()[1:], strict=True))


def test_a_problem_without_trainable_parameters_fails_as_such(tmp_path: Path) -> None:
    code = """
    def build(context):
        return problem(lambda *a: (0.0, ""), parameters=(Parameter("x", 1, "int", trainable=False),))
    """
    got = run(tmp_path, code)
    assert failure(got) == ("task", "no_trainable_parameters") and got.code == 0


@pytest.mark.parametrize(
    ("code", "boundary", "kind", "words"),
    [
        ("def build(context): raise ProblemError('no data')", "task", "task_build", "no data"),
        ("def build(context): 1 / 0", "task", "task_build", "ZeroDivisionError"),
        ("def build(context): os._exit(9)", "task", "build_died", "exited with code 9"),
        ("class Trainer:\n def train(self, *a): raise ValueError('odd')", "trainer", "train_error", "odd"),
        ("class Trainer:\n def train(self, *a): os.kill(os.getpid(), 11)", "trainer", "train_died", "SIGSEGV"),
        ("class Trainer:\n def train(self, *a): return {'y': 1}", "trainer", "bad_state", "names ['y']"),
        ("class Trainer:\n def train(self, *a): return {'x': 'text'}", "trainer", "bad_state", "no float"),
        ("class Trainer:\n def train(self, *a): return 5", "trainer", "bad_state", "no state"),
        ("def build(c): return problem(lambda *a: 'ab')", "task", "score_error", "where (score, feedback) is expected"),
    ],
)
def test_each_failure_has_a_boundary_a_kind_and_a_sentence(
    tmp_path: Path, code: str, boundary: str, kind: str, words: str
) -> None:
    got = run(tmp_path, code)
    assert failure(got) == (boundary, kind)
    assert got.result is not None and words in got.result["failure"]["message"]
    WorkerResult.model_validate(got.result)


def test_a_trainer_that_fails_is_still_scored_from_its_best_state(tmp_path: Path) -> None:
    got = run(tmp_path, CLIMB.replace("return state", "raise RuntimeError('at the end')"))
    assert failure(got) == ("trainer", "train_error")
    assert got.result is not None and got.result["scores"]["best"]["train"] == 0.0


def test_a_timeout_keeps_and_scores_the_best_state(tmp_path: Path) -> None:
    got = run(tmp_path, CLIMB.replace("return state", "time.sleep(60)"), limits={"job_timeout": 1.0}, timeout=30)
    assert failure(got) == ("trainer", "job_timeout")
    assert got.result is not None and got.result["stop_reason"] == "timeout"
    assert got.result["scores"]["best"]["train"] == 0.0


def test_a_trainer_that_listens_ends_in_order_on_timeout(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            while True:
                time.sleep(0.01)
                context.evaluate({"x": 1.0}, [0], "train")
    """
    started = time.monotonic()
    got = run(tmp_path, code, limits={"job_timeout": 0.5})
    assert time.monotonic() - started < 5
    assert got.result is not None and got.result["stop_reason"] == "timeout" and "final" in got.states


def test_scoring_that_hangs_is_ended(tmp_path: Path) -> None:
    code = "def build(c): return problem(lambda *a: time.sleep(60))"
    got = run(tmp_path, code, limits={"score_timeout": 1.0}, timeout=30)
    assert failure(got) == ("task", "score_timeout")


def test_a_request_to_stop_ends_training_in_order(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            context.event("running")
            while True:
                time.sleep(0.01)
                context.check()
    """

    def stop(worker: WorkerProcess, message: Message) -> None:
        if message.type == "event" and message.header["event"]["event"] == "running":
            worker.send(worker.mailbox.pack("stop", {"reason": "interrupted"}))

    got = run(tmp_path, code, on_message=stop)
    assert got.result is not None and got.result["stop_reason"] == "interrupted" and got.result["status"] == "ok"


@pytest.mark.parametrize(("when", "stop_reason"), [("running", "budget"), ("train.end", "completed")])
def test_a_budget_that_is_used_up_ends_training_and_nothing_after_it(
    tmp_path: Path, when: str, stop_reason: str
) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            context.event("running")
            while %r == "running":
                time.sleep(0.01)
                context.check()
            return problem.initial_state()
    """

    def stop(worker: WorkerProcess, message: Message) -> None:
        if message.type == "event" and message.header["event"]["event"] == when:
            worker.send(worker.mailbox.pack("stop", {"reason": "budget"}))

    got = run(tmp_path, code % when, on_message=stop)
    assert got.result is not None and got.result["stop_reason"] == stop_reason and got.result["status"] == "ok"
    assert got.result["scores"]["initial"] is not None


def test_endless_output_is_one_failure_and_is_capped_on_disk(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            while True:
                print("x" * 100_000)
    """
    got = run(tmp_path, code, limits={"stdout_bytes": 300_000})
    assert failure(got) == ("trainer", "output_limit")
    assert len(got.files["stdout.log"]) <= 300_000


@pytest.mark.parametrize("scores", [(1.7e308, 1.7e308, 1.7e308), (-1.7e308, -1.7e308, 1.7e308)])
def test_scores_whose_sum_is_no_number_cost_neither_training_nor_scoring(
    tmp_path: Path, scores: tuple[float, ...]
) -> None:
    """Each is finite, and a candidate's to choose: a poor fit may be that poor."""
    code = f"""
    class Trainer(Trainer):
        def train(self, problem, params, context):
            state = {{"x": 1.0}}
            rollouts = context.evaluate(state, [0, 1, 2], "train")
            record(context, step=0, candidate="c", parent=None, state=state, rollouts=rollouts, split="train")
            return state
    def build(context):
        return problem(lambda query, response, reference: (reference * response, "huge"),
                       train=tuple(Example(str(n), None, s) for n, s in enumerate({scores})))
    """
    got = run(tmp_path, code)
    assert got.result is not None and got.result["status"] == "ok", got.result
    mean = sum(score / 3 for score in scores)
    assert got.history[0]["score"] == pytest.approx(mean)
    assert got.result["scores"]["best"]["train"] == pytest.approx(mean)


def test_what_the_scorer_may_have_written_has_a_limit_too(tmp_path: Path) -> None:
    """A volume that it had filled would be a failure of the sandbox, and tried again."""
    code = """
    import gc
    from trace_bench.worker.phases import Link
    def build(context):
        def guide(query, response, reference):
            if context.test_seed is not None:
                link = next(found for found in gc.get_objects() if isinstance(found, Link))
                for _ in range(20):
                    link.send("event", kind="words", fields={"text": "x" * 100_000})
            return 1.0, "fine"
        return problem(guide)
    """
    got = run(tmp_path, code, limits={"out_bytes": 8 << 20})
    assert failure(got) == ("task", "bad_report") and len(got.files["events.jsonl"]) < 2 << 20


@pytest.mark.parametrize("end", ["return problem.initial_state()", "os.kill(os.getpid(), 9)"])
def test_a_trainer_that_fills_its_folder_between_two_checks_is_one_failure(tmp_path: Path, end: str) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            for i in range(12):
                (context.extra_dir / str(i)).write_bytes(bytes(1 << 20))
            END
    """
    got = run(tmp_path, code.replace("END", end))
    assert failure(got) == ("trainer", "disk_limit")
    assert not [name for name in got.files if name.startswith("extra/")]


def test_a_folder_that_fills_up_is_one_failure(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            for i in range(10_000):
                (context.extra_dir / str(i)).write_bytes(bytes(1 << 20))
                time.sleep(0.02)
            return problem.initial_state()
    """
    got = run(tmp_path, code)
    assert failure(got) == ("trainer", "disk_limit")
    assert not [name for name in got.files if name.startswith("extra/")]


def test_the_worker_ends_with_its_lease(tmp_path: Path) -> None:
    worker = WorkerProcess(lease=1.0)
    try:
        worker.send(worker.mailbox.pack("job", {"job": job({"builder": "nowhere:build"}, {"id": "T", "entry": "x:y"})}))
        assert worker.process.wait(10) == 75
    finally:
        worker.close()
        worker.remove()


def test_a_new_controller_gets_everything_that_the_old_one_did_not_acknowledge(tmp_path: Path) -> None:
    """The first host reads nothing at all; the second one says hello and hears the whole story."""
    from tests.worker.support import HEADER

    (tmp_path / "late.py").write_text(HEADER + CLIMB)
    worker = WorkerProcess(env={"PYTHONPATH": str(tmp_path)})
    try:
        spec = job({"builder": "late:build"}, {"id": "T", "entry": "late:Trainer"})
        worker.send(worker.mailbox.pack("job", {"job": spec}))
        time.sleep(1.0)
        worker.decoder = type(worker.decoder)()
        seen: list[str] = []
        numbers: list[int] = []
        # Half a frame of the dead controller, then padding and hello of the new one.
        worker.send(worker.mailbox.pack_ephemeral("stop", {"reason": "never"})[:20])
        worker.send(
            bytes(1 << 16) + worker.mailbox.pack_ephemeral("hello", {"controller": "b", "received": 0, "lease": 20})
        )
        deadline = time.monotonic() + 20
        while "done" not in seen and time.monotonic() < deadline:
            for message in worker.messages(1.0) or []:
                if "n" in message.header and worker.mailbox.accept(message):
                    numbers.append(message.header["n"])
                    seen.append(message.type)
                    if message.type == "event" and message.header["event"]["event"] == "train.end":
                        worker.send(worker.mailbox.pack("heldout", {"test_seed": 1}))
                    worker.send(worker.mailbox.ack())
        assert numbers == list(range(1, len(numbers) + 1))
        assert seen.count("history") == 5 and seen[-1] == "done"
        assert worker.process.wait(10) == 0
    finally:
        worker.close()
        worker.remove()


def test_sigterm_is_a_request_to_stop(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            context.event("running")
            while True:
                time.sleep(0.01)
                context.check()
    """

    def terminate(worker: WorkerProcess, message: Message) -> None:
        if message.type == "event" and message.header["event"]["event"] == "running":
            os.kill(worker.process.pid, signal.SIGTERM)

    got = run(tmp_path, code, on_message=terminate)
    assert got.result is not None and got.result["stop_reason"] == "interrupted"


@pytest.mark.parametrize("reason", ["interrupted", "timeout"])
def test_a_trainer_that_says_it_was_cut_off_and_was_not_has_come_to_its_end(tmp_path: Path, reason: str) -> None:
    """Else a search that finds nothing could have itself run again, and be in no mean."""
    code = f"""
    class Trainer(Trainer):
        def train(self, problem, params, context):
            raise StopTraining({reason!r})
    """
    got = run(tmp_path, code)
    assert got.result is not None, got.stderr
    assert (got.result["status"], got.result["stop_reason"], got.result["stop_point"]) == ("ok", "completed", None)
    assert any(reason in warning and "was not stopped" in warning for warning in got.result["warnings"])


def test_a_trainer_that_says_its_failure_was_an_interruption_has_failed(tmp_path: Path) -> None:
    code = """
    from trace_bench.worker.phases import PhaseFailure
    class Trainer(Trainer):
        def train(self, problem, params, context):
            raise PhaseFailure("trainer", "interrupted", "somebody ended me")
    """
    assert failure(run(tmp_path, code)) == ("trainer", "bad_report")


def test_a_budget_of_seconds_ends_training_in_order_and_the_job_is_ok(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            while True:
                time.sleep(0.01)
                context.evaluate({"x": 1.0}, [0], "train")
    """
    got = run(tmp_path, code, over={"budget": {"seconds": 0.5}})
    assert got.result is not None
    assert (got.result["status"], got.result["stop_reason"]) == ("ok", "budget")


def test_a_model_that_changes_nothing_is_recorded_as_inert(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            context.chat([{"role": "user", "content": "better?"}], slot=Slot(0, "c"))
            return problem.initial_state()
    """

    def answer(header: dict, body: bytes) -> tuple[int, bytes, dict]:
        assert header["headers"]["x-trace-bench-slot"] == "step=0;candidate=c;proposal=0;attempt=0"
        return 200, b'{"choices": []}', {"inert": True, "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    got = run(tmp_path, code, answer=answer)
    assert got.result is not None and got.result["stub_inert"] is True
    assert any("inert" in warning for warning in got.result["warnings"])


def test_history_counts_what_was_spent_so_far(tmp_path: Path) -> None:
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            state = problem.initial_state()
            for i in range(3):
                rollouts = context.evaluate(state, [0], "train")
                record(context, step=i, candidate=f"c{i}", parent=None, state=state, rollouts=rollouts, split="train")
                context.chat([{"role": "user", "content": "better?"}], slot=Slot(i, "c"))
            return state
    """

    def answer(header: dict, body: bytes) -> tuple[int, bytes, dict]:
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "cost_usd": 0.25}
        return 200, b'{"choices": []}', {"usage": usage}

    got = run(tmp_path, code, answer=answer)
    lines = [HistoryLine.model_validate_json(x) for x in got.files["state_history.jsonl"].splitlines()]
    assert [(x.evaluations, x.prompt_tokens, x.completion_tokens, x.cost_usd) for x in lines] == [
        (1, 0, 0, 0.0), (2, 3, 1, 0.25), (3, 6, 2, 0.5)
    ]  # fmt: skip
    assert lines[0].seconds <= lines[1].seconds <= lines[2].seconds


def test_an_exhausted_budget_ends_training_in_order(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            while True:
                context.chat([{"role": "user", "content": "more"}], slot=Slot(0, "c"))
    """

    def answer(header: dict, body: bytes) -> tuple[int, bytes, dict]:
        return 429, b'{"error": {"code": "budget_exhausted", "message": "spent"}}', {}

    got = run(tmp_path, code, answer=answer)
    assert got.result is not None
    assert (got.result["status"], got.result["stop_reason"]) == ("ok", "budget")


def test_a_provider_that_has_no_answer_is_a_provider_failure(tmp_path: Path) -> None:
    code = """
    class Trainer:
        uses_graph = False
        def train(self, problem, params, context):
            context.chat([{"role": "user", "content": "hello"}], slot=Slot(0, "c"))
    """
    assert failure(run(tmp_path, code)) == ("provider", "provider_error")


BUILD = {"until": "build"}


def report_of(outcome: Outcome) -> BuildReport:
    (line,) = [e for e in outcome.events if e["event"] == "build.end"]
    return BuildReport.model_validate_json(json.dumps({k: v for k, v in line.items() if k not in ("t", "event")}))


def test_a_job_until_build_says_what_its_problem_is_like_and_ends(tmp_path: Path) -> None:
    code = """
    print("imported")
    def build(context):
        return problem(
            lambda *a: 1 / 0, direction="minimize", agent=lambda ops, query: 0, train=examples(["a", "b"]),
            validate=examples(["c"]), test=examples(["d"] * 3) if context.test_seed is not None else (),
            parameters=(Parameter("x", 1, "int"), Parameter("fixed", "text", "text", trainable=False)),
        )
    """
    got = run(tmp_path, code, over=BUILD)
    assert got.code == 0 and got.result is not None
    result = WorkerResult.model_validate(got.result)
    assert (result.status, result.failure, result.stop_reason) == ("ok", None, None)
    assert list(result.seconds) == ["build"] and result.scores.initial is None
    assert report_of(got).model_dump() == {
        "direction": "minimize",
        "parameters": (
            {"name": "x", "kind": "int", "trainable": True},
            {"name": "fixed", "kind": "text", "trainable": False},
        ),
        "examples": {"train": 2, "validate": 1, "test": 3},
        "bound": None,
        "best_known": None,
        "programs": (),
    }
    assert got.log.splitlines() == ["imported"], "the trainer's phase never began"
    kinds = [e["event"] for e in got.events]
    assert kinds == ["job.start", "phase.start", "phase.end", "build.end", "job.end"]
    assert json.loads(got.files["result.json"]) == got.result


def test_a_job_until_build_ends_well_without_trainable_parameters(tmp_path: Path) -> None:
    code = """
    def build(context):
        return problem(lambda *a: (0.0, ""), parameters=(Parameter("x", 1, "int", trainable=False),))
    """
    got = run(tmp_path, code, over=BUILD)
    assert got.result is not None and got.result["status"] == "ok"
    assert [p.trainable for p in report_of(got).parameters] == [False]


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("def build(context): raise ProblemError('no data')", "task_build", "no data"),
        ("def build(context): os._exit(9)", "build_died", "exited with code 9"),
        ("def build(context): time.sleep(60)", "build_timeout", "score_timeout = 1 s"),
        ("def build(c): return 1 / 0 if c.test_seed is not None else None", "task_build", "ZeroDivisionError"),
    ],
)
def test_a_problem_that_does_not_build_ends_a_job_until_build(tmp_path: Path, code: str, kind: str, words: str) -> None:
    got = run(tmp_path, code, over=BUILD, limits={"score_timeout": 1.0}, timeout=30)
    assert failure(got) == ("task", kind) and got.code == 0
    assert got.result is not None and words in got.result["failure"]["message"]
    assert [e for e in got.events if e["event"] == "build.end"] == []


def test_a_request_to_stop_ends_a_build_at_once(tmp_path: Path) -> None:
    code = """
    def build(context):
        print("building")
        time.sleep(600)
    """

    def stop(worker: WorkerProcess, message: Message) -> None:
        if message.type == "log":
            worker.send(worker.mailbox.pack("stop", {"reason": "interrupted"}))

    got = run(tmp_path, code, over=BUILD, limits={"score_timeout": None}, on_message=stop, timeout=30)
    assert failure(got) == ("harness", "interrupted") and got.code == 0


@pytest.mark.parametrize(
    "report",
    [
        "direction='sideways'",
        "direction=float('nan')",
        "parameters=[{'name': 1, 'kind': 'int', 'trainable': True}]",
        "parameters=[{'name': 'x', 'kind': 'int', 'trainable': 'yes'}]",
        "parameters=5",
        "examples={'train': -1}",
        "examples={'train': float('inf')}",
        "examples={'dev': 1}",
        "examples=[1]",
    ],
)
def test_a_build_report_that_is_none_is_the_tasks_failure(tmp_path: Path, report: str) -> None:
    code = f"""
    import json, socket, struct, trace_bench.worker.phases as phases
    def build(context):
        report = dict(initial={{"x": 0.0}}, direction="maximize", parameters=[], examples={{"train": 1}})
        report.update({report})
        def send(self, op, **fields):
            data = json.dumps({{"op": "result", **report}}).encode()
            self._sock.sendall(struct.pack(">I", len(data)) + data)
            time.sleep(60)
        phases.Link.send = send
        return problem(lambda *a: (0.0, ""))
    """
    got = run(tmp_path, code, over=BUILD, timeout=30)
    assert failure(got) == ("task", "bad_report"), got.stderr


def test_a_spawner_that_is_killed_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    """Nothing of a job can kill it but the kernel, for want of memory."""
    killed: list[int] = []

    def kill(worker: WorkerProcess, message: Message) -> None:
        if message.type == "event" and message.header["event"]["event"] == "phase.start" and not killed:
            pid = worker.process.pid
            killed.extend(int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            for child in killed:
                os.kill(child, signal.SIGKILL)

    got = run(tmp_path, CLIMB, on_message=kill)
    assert len(killed) == 1 and got.code == SPAWNER_KILLED and got.result is None
    assert "the spawner ended" in got.stderr


def test_a_result_that_is_larger_than_a_message_may_be_is_told_in_short(tmp_path: Path) -> None:
    """A host drops what is larger, and would wait for the end of the job for ever."""
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            for x in (1.0, 0.5):
                state = {"x": x}
                rollouts = context.evaluate(state, range(300), "train")
                record(context, step=0, candidate="c", parent=None, state=state, rollouts=rollouts, split="train")
            return state
    def build(context):
        return problem(lambda query, response, reference: (response, chr(0x1F600) * 2000),
                       train=examples([str(n) for n in range(300)]))
    """
    got = run(tmp_path, code, timeout=40)
    assert got.result is not None and got.result["status"] == "ok"
    whole = json.loads(got.files["result.json"])
    assert len(json.dumps(whole)) > MAX_HEADER and len(whole["scores"]["best"]["examples"]) == 300
