"""States that are evaluated one after the other in one sandbox, from Python and by the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trace_bench
from tests.console import here
from tests.integration.test_interruption import wait_for
from trace_bench.errors import Boundary, ConfigError
from trace_bench.execution.evaluation import Evaluation, ExampleEvaluation
from trace_bench.execution.evaluator import Evaluator
from trace_bench.execution.state_exchange import EvaluationFailed, StateExchange
from trace_bench.sandbox.local import LocalBackend

TASK = "internal:numeric_param"
ROOTS = [Path(__file__).parents[1] / "tasks"]
PROGRAM = "llm4ad:online_bin_packing_local"


@pytest.fixture(scope="module")
def guess() -> Iterator[Evaluator]:
    with trace_bench.evaluator(TASK, backend="local") as evaluator:
        yield evaluator


def test_states_are_evaluated_on_each_example(guess: Evaluator) -> None:
    assert guess.initial == {"guess": 0.0} and guess.direction == "maximize"
    found = guess({"guess": 2.5})
    assert (found.score, found.split, found.failed) == (-0.5, "validation", 0)
    (example,) = found.examples
    assert (example.id, example.score) == ("validate-0", -0.5) and "too small by 0.5" in example.feedback
    assert guess().score == guess({}).score == guess({"guess": 0}).score == -3.0
    assert guess({"guess": 3}, split="train").split == "train"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"gess": 1}, "unknown trainable parameter 'gess'; the task has guess"),
        ({"guess": "2"}, "guess must be a number, not str"),
        ({"guess": True}, "guess must be a number, not bool"),
        ({"guess": 11}, "guess must be from -10 to 10"),
        ("2", "guess must be a number, not str"),
        ({"guess": float("nan")}, "guess is nan; write text or a finite number"),
        ({"guess": 10**400}, "guess is 1000.*; write text or a finite number"),
        ({"guess": b"2"}, "guess is b'2'; write text or a finite number"),
        ({"guess": "\ud800"}, "guess is '.ud800'; write text or a finite number"),
        ({"guess": [2]}, r"guess is \[2\]; write text or a finite number"),
        ({"gu\ud800": 1}, "the name of a parameter is 'gu.ud800'"),
        (5, "a state is values by name, or a text, not int"),
    ],
)
def test_what_is_no_state_is_refused_and_ends_nothing(guess: Evaluator, state: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        guess(state)
    assert guess({"guess": 3}).score == 0.0


def test_numbers_of_numpy_are_numbers(guess: Evaluator) -> None:
    for value in (np.float32(2.5), np.float64(2.5), np.int64(2)):
        assert guess({"guess": value}).score == guess({"guess": float(value)}).score


def test_threads_get_what_belongs_to_their_state(guess: Evaluator) -> None:
    states = [{"guess": number / 4} for number in range(24)]
    with ThreadPoolExecutor(6) as pool:
        assert [found.score for found in pool.map(guess, states)] == [guess(state).score for state in states]


def test_the_end_of_a_fork_leaves_the_files_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def leave() -> None:
        evaluating.__exit__(None, None, None)

    evaluating = trace_bench.evaluator(TASK, backend="local")
    with evaluating as evaluator:
        before = list(tmp_path.glob("trace-bench-evaluate-*"))
        child = get_context("fork").Process(target=leave)
        child.start()
        child.join()
        assert len(before) == 1 and list(tmp_path.glob("trace-bench-evaluate-*")) == before
        assert evaluator({"guess": 3}).score == 0.0
    assert not list(tmp_path.glob("trace-bench-evaluate-*"))


def test_a_fork_of_the_process_is_refused(guess: Evaluator) -> None:
    ours, theirs = get_context("fork").Pipe()

    def ask() -> None:
        try:
            guess({"guess": 1})
        except ConfigError as error:
            theirs.send(str(error))

    child = get_context("fork").Process(target=ask)
    child.start()
    assert ours.poll(60), "it waits for an answer that another process gets"
    assert "belongs to the process that opened it" in ours.recv()
    child.join()
    assert guess({"guess": 3}).score == 0.0


def test_what_a_program_answers_cannot_end_a_session() -> None:
    """Its text, half of a pair of surrogates here, is not handed on."""
    with trace_bench.evaluator(
        "hf:gsm8k", backend="local", arguments={"fixture": True, "num_validate": 2}
    ) as evaluator:
        (name,) = (name for name in evaluator.initial if name == "extract_answer")
        found = evaluator({name: "def extract_answer(response):\n    return '\\ud800'\n"})
        assert found.score == 0.0 and found.examples
        assert evaluator().examples, "it goes on"


def test_without_validation_examples_training_examples_count_and_held_out_ones_are_scored() -> None:
    arguments = {"num_validate": 0}
    found = trace_bench.evaluate(PROGRAM, backend="local", arguments=arguments)
    assert found.split == "train" and found.examples
    held_out = trace_bench.evaluate(PROGRAM, backend="local", arguments=arguments, split="test")
    assert held_out.split == "test" and held_out.examples
    with (
        trace_bench.evaluator(PROGRAM, backend="local", arguments=arguments) as evaluator,
        pytest.raises(ConfigError, match="has no validate examples; take split train"),
    ):
        evaluator(split="validation")


def test_a_model_without_a_key_is_said_before_a_sandbox_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        trace_bench.evaluate(TASK, {"guess": 1}, backend="local", model="openai/gpt-4o-mini")


def test_held_out_data_are_for_no_session(guess: Evaluator) -> None:
    for split in ("test", "held-out"):
        with pytest.raises(ConfigError, match="an evaluator has train and validation"):
            guess(split=split)


def test_a_session_that_is_closed_leaves_no_sandbox_and_no_thread_and_says_so(guess: Evaluator) -> None:
    before = LocalBackend().find({})
    with trace_bench.evaluator(TASK, backend="local") as evaluator:
        assert len(LocalBackend().find({})) == len(before) + 1
    assert len(LocalBackend().find({})) == len(before)
    assert sum(thread.name == "evaluator" for thread in threading.enumerate()) == 1, "that of the other tests"
    with pytest.raises(Exception, match="the evaluator is closed"):
        evaluator({"guess": 1})
    with pytest.raises(ValueError, match="mine"), trace_bench.evaluator(TASK, backend="local"):
        raise ValueError("mine")
    assert len(LocalBackend().find({})) == len(before)


def test_a_sandbox_that_dies_is_said_and_ends_the_session() -> None:
    before = {sandbox.name for sandbox in LocalBackend().find({})}
    with pytest.raises(EvaluationFailed) as caught, trace_bench.evaluator(TASK, backend="local") as evaluator:
        (ours,) = (sandbox for sandbox in LocalBackend().find({}) if sandbox.name not in before)
        ours.kill()
        evaluator({"guess": 1})
    assert caught.value.boundary is Boundary.SANDBOX
    with pytest.raises(EvaluationFailed):
        evaluator({"guess": 1})


def test_an_answer_that_was_not_waited_for_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a user interrupts the cell of a notebook, and goes on."""
    exchange = StateExchange()

    def interrupted(timeout: float) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange, "_said", SimpleNamespace(get=interrupted))
    with pytest.raises(KeyboardInterrupt):
        exchange.ask({"state": {}, "split": "train"})
    with pytest.raises(EvaluationFailed, match="was interrupted; open another one"):
        exchange.ask({"state": {}, "split": "train"})


def test_a_program_is_a_text_and_its_failure_a_score() -> None:
    with trace_bench.evaluator(PROGRAM, backend="local", seed=5, arguments={"size": "small"}) as evaluator:
        start = evaluator()
        assert start.score == evaluator(evaluator.initial["code"]).score and start.failed == 0
        broken = evaluator("def nothing(): pass\n")
        assert broken.failed == len(broken.examples) > 1 and "does not define a function" in broken.feedback
        assert broken.score > start.score and start.direction == "minimize"
        assert set(start.metrics) >= {"normalised"}
        assert evaluator().score == start.score, "it goes on, and comes out the same"


def test_one_candidate_is_scored_as_a_job_scores_it(tmp_path: Path) -> None:
    config = {"tasks": [PROGRAM], "trainers": ["NoOp"], "seeds": [7], "backend": "local", "runs_dir": str(tmp_path)}
    (row,) = trace_bench.run(config).rows
    found = trace_bench.evaluate(PROGRAM, seed=7, backend="local")
    assert found.score == row.score_initial
    assert found.metrics["normalised"] == pytest.approx(row.metrics_best["normalised"], abs=1e-12)
    held_out = trace_bench.evaluate(PROGRAM, seed=7, backend="local", split="test")
    assert {each.id.split("-")[0] for each in held_out.examples} == {"test"} and held_out.split == "test"
    assert list(tmp_path.iterdir()) == [tmp_path / row.run_id], "nothing of it is recorded"


def test_roots_are_texts_and_paths_one_or_many() -> None:
    for roots in (str(ROOTS[0]), ROOTS[0], [str(ROOTS[0])]):
        assert trace_bench.evaluate(TASK, {"guess": 3}, backend="local", roots=roots).score == 0.0


def test_what_has_no_held_out_data_or_is_no_single_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no held-out examples; take validation"):
        trace_bench.evaluate(TASK, {"guess": 1}, backend="local", split="test")
    with pytest.raises(ConfigError, match="selects 65 tasks; name one"):
        trace_bench.evaluate("llm4ad:all", backend="local")
    with pytest.raises(ConfigError, match="evaluate: tasks"):
        trace_bench.evaluate("internal:nothing", backend="local")


def test_a_problem_that_does_not_build_is_the_tasks_failure(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    source = ROOTS[0].parents[1] / "benchmarks" / "internal" / "numeric_param"
    (folder / "task.toml").write_text((source / "task.toml").read_text())
    (folder / "problem.py").write_text("raise RuntimeError('it is broken')\n")
    with pytest.raises(EvaluationFailed, match="it is broken") as caught:
        trace_bench.evaluate("internal:broken", backend="local", roots=[tmp_path])
    assert caught.value.boundary is Boundary.TASK


def test_means_are_of_what_all_examples_have() -> None:
    one = ExampleEvaluation("a", 1.0, "fine", metrics={"score": 1.0, "speed": 2.0})
    other = ExampleEvaluation("b", 3.0, "bad", failed=True, metrics={"score": 3.0})
    found = Evaluation.of("t", "train", "maximize", [one, other])
    assert (found.score, found.feedback, dict(found.metrics), found.failed) == (2.0, "bad", {"score": 2.0}, 1)
    assert "<table" in found._repr_html_()


def test_the_command_prints_examples_and_their_mean(tmp_path: Path) -> None:
    local = ("--backend", "local")
    done = here("evaluate", TASK, "--set", "guess=2.5", *local)
    assert done.returncode == 0 and "validate-0   -0.5" in done.stdout
    assert done.stdout.endswith(f"{TASK}: -0.5 (higher is better), over 1 validation example\n")
    (tmp_path / "state.json").write_text('{"guess": 3}')
    done = here("evaluate", TASK, "--state", str(tmp_path / "state.json"), "--json", *local)
    assert json.loads(done.stdout)["score"] == 0.0
    (tmp_path / "bad.json").write_text("[1]")
    for arguments, says in (
        (("--state", str(tmp_path / "none.py")), "none.py: No such file or directory; name a readable file"),
        (("--state", str(tmp_path / "bad.json")), "bad.json: it is no object; write values by name"),
        (("--set", "guess"), "--set guess: is no argument; write NAME=VALUE"),
        (("--split", "all"), "--split: there is no 'all'; write one of train, validation, test"),
        (("--state", "x", "--set", "guess=1"), "--state and --set contradict each other; give one of them"),
        (("--set", "gess=1"), f"{TASK}: unknown trainable parameter 'gess'; the task has guess"),
    ):
        done = here("evaluate", TASK, *arguments, *local)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_signals_end_the_command_in_order_and_leave_no_sandbox() -> None:
    """The second one comes while the sandbox is removed."""
    before = len(LocalBackend().find({}))
    program = "def priority(item, bins):\n    while True: pass\n"
    command = [sys.executable, "-m", "trace_bench", "evaluate", PROGRAM, "--set", f"code={json.dumps(program)}"]
    process = subprocess.Popen([*command, "--backend", "local"], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(LocalBackend().find({})) > before, 60)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in said and "Traceback" not in said, said
    assert len(LocalBackend().find({})) == before
