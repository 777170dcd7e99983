"""Folders in the shapes of OpenEvolve and ShinkaEvolve: described from their source, scored by their evaluators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli import cli
from tests.suites.conftest import build_folder
from trace_bench.errors import ConfigError
from trace_bench.suites.evolve_blocks import Marked
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import Problem, ProblemError, Programs

PROGRAM = '''"""Finds a number."""
# EVOLVE-BLOCK-START
def helper():
    return 1

def guess():
    return helper()
# EVOLVE-BLOCK-END

def run():
    return guess()
'''
OPENEVOLVE = """import importlib.util
from openevolve.evaluation_result import EvaluationResult

def _run(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program.run()

def evaluate_stage1(program_path):
    return {"ok": 1.0 if _run(program_path) > 0 else 0.0}

def evaluate(program_path):
    value = _run(program_path)
    return EvaluationResult(metrics={"combined_score": -abs(value - 5), "value": value}, artifacts={"hint": "near 5"})

evaluate_stage2 = evaluate
"""
SHINKA = """from shinka.core import run_shinka_eval

def main(program_path, results_dir):
    run_shinka_eval(
        program_path=program_path, results_dir=results_dir, experiment_fn_name="run", num_runs=2,
        get_experiment_kwargs=lambda i: {}, validate_fn=lambda r: (r < 9, "too large"),
        aggregate_metrics_fn=lambda rs: {"combined_score": float(sum(rs)), "public": {"n": len(rs)}},
    )
"""


def write(root: Path, shape: str, program: str = PROGRAM, evaluator: str | None = None) -> Path:
    folder = root / "find_five"
    folder.mkdir(parents=True)
    names = ("initial_program.py", "evaluator.py") if shape == "openevolve" else ("initial.py", "evaluate.py")
    texts = (program, evaluator or (OPENEVOLVE if shape == "openevolve" else SHINKA))
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text)
    return folder


def score(problem: Problem, programs: Programs, **state: str) -> tuple[float, bool, str]:
    rollout = evaluate_example(problem, problem.initial_state() | state, problem.train[0], programs)
    return rollout.score, rollout.failed, rollout.feedback


@pytest.mark.parametrize("shape", ["openevolve", "shinka"])
def test_such_a_folder_is_a_task_whose_jobs_are_unprotected(shape: str, tmp_path: Path) -> None:
    folder = write(tmp_path, shape)
    (entry,) = [each for each in discover(None, [tmp_path]) if each.folder == folder]
    assert entry.id == "llm4ad:find_five"
    spec = load_task_spec(folder)
    assert spec.executes_candidates({}) and "may execute programs" in spec.execution({})
    assert spec.eval_kwargs["timeout_seconds"].default == 300.0
    listed = cli("tasks", "--root", str(tmp_path), "llm4ad:find_five").stdout
    assert "\tforeign,unprotected\t" in listed


def test_only_the_part_between_the_marks_is_trainable(tmp_path: Path, programs: Programs) -> None:
    problem = build_folder(write(tmp_path, "openevolve"), programs, "llm4ad", seed=1, test_seed=None)
    (parameter,) = problem.parameters
    assert (parameter.name, parameter.kind, parameter.entry) == ("code", "code", "guess")
    assert parameter.value == "def helper():\n    return 1\n\ndef guess():\n    return helper()\n"
    assert "def run():" in problem.objective
    assert score(problem, programs)[:2] == (-4.0, False)
    value, failed, feedback = score(problem, programs, code="def guess():\n    return 5")
    assert (value, failed) == (0.0, False) and "hint: near 5" in feedback and "ok 1.0" in feedback
    value, failed, feedback = score(problem, programs, code="def guess():\n    return 1 / 0\n")
    assert failed and "ZeroDivisionError" in feedback
    assert score(problem, programs, code="def guess(:\n")[1]


def test_a_cascade_stops_at_a_low_score_unless_it_is_off(tmp_path: Path, programs: Programs) -> None:
    folder = write(tmp_path, "openevolve")
    low = "def guess():\n    return -1\n"
    (folder / "config.yaml").write_text(
        "evaluator: {cascade_thresholds: [0.7], timeout: 7}\nprompt: {system_message: Find a number.}\n"
    )
    problem = build_folder(folder, programs, "llm4ad", seed=1, test_seed=None)
    assert problem.objective.startswith("Find a number.\n")
    value, _, feedback = score(problem, programs, code=low)
    assert value == 0.0 and feedback.endswith("It stopped after evaluate_stage1, whose score must be at least 0.7.")
    problem = build_folder(folder, programs, "llm4ad", seed=1, test_seed=None, cascade=False)
    assert score(problem, programs, code=low)[0] == -6.0
    assert load_task_spec(folder).eval_kwargs["timeout_seconds"].default == 7.0


@pytest.mark.parametrize("value", ["10**400", "[5]", "Odd()", "__import__('numpy').array([[9.0]])"])
def test_a_value_that_is_no_number_is_the_programs_failure(value: str, tmp_path: Path, programs: Programs) -> None:
    evaluator = OPENEVOLVE.replace("-abs(value - 5)", "value")
    problem = build_folder(
        write(tmp_path, "openevolve", evaluator=evaluator), programs, "llm4ad", seed=1, test_seed=None
    )
    odd = "class Odd:\n    __float__ = __str__ = lambda self: 1 / 0\n    __gt__ = lambda *_: True\n"
    assert score(problem, programs, code=f"{odd}\ndef guess():\n    return {value}\n")[1]


def test_a_program_that_catches_everything_is_ended_by_the_time_limit(tmp_path: Path, programs: Programs) -> None:
    problem = build_folder(
        write(tmp_path, "openevolve"), programs, "llm4ad", seed=1, test_seed=None, timeout_seconds=0.3
    )
    loop = "while True:\n        try:\n            time.sleep(60)\n        except BaseException:\n            pass\n"
    _, failed, feedback = score(problem, programs, code=f"import time\n\ndef guess():\n    {loop}")
    assert failed and "took more than 0.3 s" in feedback
    assert not score(problem, programs)[1]


def test_thresholds_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, "openevolve")
    (folder / "config.yaml").write_text("evaluator: {cascade_thresholds: [.nan, true]}\n")
    assert load_task_spec(folder).eval_kwargs["cascade_thresholds"].default == [0.5, 0.75, 0.9]


@pytest.mark.parametrize("text", ["released: 2024-13-45\n", "[" * 3000, "a: [\n"])
def test_a_config_that_is_no_yaml_is_one_sentence(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path, "openevolve")
    (folder / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"config.yaml: cannot be read as YAML: "):
        load_task_spec(folder)


def test_metrics_and_correctness_of_shinka(tmp_path: Path, programs: Programs) -> None:
    problem = build_folder(write(tmp_path, "shinka"), programs, "llm4ad", seed=1, test_seed=None)
    assert score(problem, programs)[:2] == (2.0, False)
    _, failed, feedback = score(problem, programs, code="def guess():\n    return 10\n")
    assert failed and "the program is not correct: Validation failed: too large" in feedback
    _, failed, feedback = score(problem, programs, code="def guess():\n    return [][0]\n")
    assert failed and "IndexError" in feedback


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        (
            "import json\ndef main(program_path, results_dir):\n    pass\n",
            "main() left no metrics.json that can be read",
        ),
        ("import nowhere\ndef main(a, b):\n    pass\n", "imports nowhere, which is not in the image"),
        ("1 / 0\ndef main(a, b):\n    pass\n", "evaluate.py, line 1: ZeroDivisionError"),
    ],
)
def test_an_evaluator_that_is_at_fault_fails_the_job(
    evaluator: str, said: str, tmp_path: Path, programs: Programs
) -> None:
    folder = write(tmp_path, "shinka", evaluator=evaluator)
    with pytest.raises(ProblemError) as caught:
        score(build_folder(folder, programs, "llm4ad", seed=1, test_seed=None), programs)
    assert said in str(caught.value)


def test_several_blocks_and_indentation(tmp_path: Path, programs: Programs) -> None:
    program = (
        "# EVOLVE-BLOCK-START\nA = 2\n# EVOLVE-BLOCK-END\ndef run():\n    # EVOLVE-BLOCK-START\n"
        "    b = A\n    return b\n    # EVOLVE-BLOCK-END\n"
    )
    problem = build_folder(write(tmp_path, "shinka", program), programs, "llm4ad", seed=1, test_seed=None)
    assert problem.initial_state() == {"block_1": "A = 2\n", "block_2": "b = A\nreturn b\n"}
    assert score(problem, programs)[0] == 4.0
    assert score(problem, programs, block_2="if A:\n    return A + 1")[0] == 6.0
    assert Marked.of(program).with_blocks(Marked.of(program).blocks) == program
    assert Marked.of("x = 1\n").blocks == ("x = 1\n",)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("# EVOLVE-BLOCK-START\nx = 1\n", "line 1: EVOLVE-BLOCK-START without an EVOLVE-BLOCK-END below it; pair"),
        ("x = 1\n# EVOLVE-BLOCK-END\n", "line 2: EVOLVE-BLOCK-END without a EVOLVE-BLOCK-START above it"),
        ("# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n", "line 2: EVOLVE-BLOCK-START within the block that line 1"),
        ("def run(:\n", "initial.py, line 1: is not Python"),
    ],
)
def test_marks_without_a_partner_are_refused(program: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"initial\.py, ") as caught:
        load_task_spec(write(tmp_path, "shinka", program))
    assert said in str(caught.value)


@pytest.mark.parametrize("shape", ["openevolve", "shinka"])
def test_it_runs_by_its_root(shape: str, tmp_path: Path) -> None:
    write(tmp_path / "tasks", shape)
    arguments = ("-t", "llm4ad:find_five", "--root", "tasks", "--backend", "local")
    done = cli("run", *arguments, cwd=tmp_path, home=tmp_path / "home")
    assert done.returncode == 0 and "1 of 1 jobs ok" in done.stdout, done.stderr
    assert "unprotected" in done.stdout
