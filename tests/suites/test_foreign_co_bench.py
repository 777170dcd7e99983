"""Folders in CO-Bench's shape: described from their source, and scored as CO-Bench scores them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.conftest import build_folder
from trace_bench.errors import ConfigError
from trace_bench.suites import user_data
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import Problem, ProblemError, Programs

CONFIG = '''
DESCRIPTION = "Choose a number of each set; the sum is to be large."
import math
import random as rnd

def solve(**kwargs):
    """
    Input kwargs:
      - sets: a list of sets of numbers
      - limits: a dict (row, column) -> largest number
    Returns: {"chosen": list of numbers}
    """
    return {"chosen": [math.floor(min(s)) for s in kwargs["sets"]]}

def load_data(path):
    with open(path) as file:
        rows = [line.split() for line in file]
    return [{"sets": [set(map(int, row))], "limits": {(0, 0): 9}, "name": str(i)} for i, row in enumerate(rows)]

def eval_func(**kwargs):
    (numbers,), (chosen,) = kwargs["sets"], kwargs["chosen"]
    if chosen not in numbers:
        raise ValueError(f"{chosen} is none of them")
    numbers.clear()  # what an evaluator spoils is a copy
    return chosen

def norm_score(results):
    best = {"a.txt": [4, 8], "b.txt": [10]}
    return {case: ([s if isinstance(s, str) else s / best[case][i] for i, s in enumerate(scores)], error)
            for case, (scores, error) in results.items() if case in best}

def get_dev():
    return {"a.txt": [1], "b.txt": []}
'''
BEST = "def solve(sets, limits, **rest):\n    return {'chosen': [max(s) for s in sets if max(s) <= limits[0, 0] + 1]}\n"


def write(folder: Path, config: str = CONFIG) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.py").write_text(config)
    for name, text in (("a.txt", "1 4\n2 8\n"), ("b.txt", "5 10\n"), ("unknown.txt", "7\n")):
        (folder / name).write_text(text)
    return folder


def made(folder: Path, programs: Programs, test_seed: int | None = None, **given: object) -> Problem:
    return build_folder(folder, programs, "llm4ad", seed=1, test_seed=test_seed, **given)


def test_what_is_read_from_its_source_is_what_a_task_toml_would_say(tmp_path: Path) -> None:
    folder = write(tmp_path / "Vehicle routing: period")
    assert resolve("llm4ad:Vehicle routing: period", [tmp_path]).folder == folder
    spec = load_task_spec(folder)
    assert spec.title == "Vehicle routing: period" and spec.statement.startswith("Choose a number of each set")
    assert (spec.entry, spec.interaction, spec.score.failure) == ("solve", "solve", 0.0)
    assert not spec.executes_candidates({}), "eval_func gets answers, and executes nothing"
    assert resolve_eval_kwargs(spec, {}, lambda key: key) == {"timeout_seconds": 10.0}
    (folder / "config.py").write_text(CONFIG.replace("return chosen\n", "return eval(chosen)\n"))
    assert load_task_spec(folder).executes_candidates({})
    (folder / "config.py").write_text("def solve(\ndef load_data(\ndef eval_func(\n")
    with pytest.raises(ConfigError, match=r"config.py, line 2: is not Python"):
        load_task_spec(folder)


def test_each_file_is_an_example_and_scores_are_shares_of_the_best_known(tmp_path: Path, programs: Programs) -> None:
    problem = made(write(tmp_path / "t"), programs)
    (parameter,) = problem.parameters
    assert parameter.entry == "solve" and parameter.value.startswith("import math\ndef solve(**kwargs):")
    assert "Choose a number of each set" in problem.objective and "10 s for each instance" in problem.objective
    assert [example.id for example in problem.train] == ["train-a.txt", "train-b.txt"], "unknown.txt has no best score"
    assert problem.test == ()
    start = [evaluate_example(problem, problem.initial_state(), e, programs) for e in problem.train]
    assert [rollout.score for rollout in start] == [2 / 8, 5 / 10], start
    for _ in range(2):
        best = [evaluate_example(problem, {"code": BEST}, e, programs) for e in problem.train]
        assert [rollout.score for rollout in best] == [1.0, 1.0]
    held_out = made(tmp_path / "t", programs, test_seed=5)
    assert [example.id for example in held_out.test] == ["test-a.txt"], "b.txt is for training as a whole"
    assert evaluate_example(held_out, {"code": BEST}, held_out.test[0], programs).score == 1.0
    assert evaluate_example(held_out, held_out.initial_state(), held_out.test[0], programs).score == 1 / 4


@pytest.mark.parametrize(
    ("source", "score", "said"),
    [
        ("def solve(**k):\n    return {'chosen': [3]}\n", None, "score failed: 3 is none of them"),
        ("def solve(**k):\n    return [3]\n", None, "solve returned list where a dict is expected"),
        ("def solve(**k):\n    return {'chosen': [k['name']]}\n", None, "score failed: 1 is none of them"),
        ("def solve(**k):\n    return 1 / 0\n", None, "call failed at line 2: ZeroDivisionError"),
        ("def solve(**k):\n    while True: pass\n", None, "timeout failed"),
        ("def solve(sets, limits, name):\n    assert name == '0', 'odd'\n    return {'chosen': [4]}\n", 0.5, "odd"),
    ],
)
def test_an_instance_that_fails_counts_zero(
    tmp_path: Path, programs: Programs, source: str, score: float | None, said: str
) -> None:
    config = CONFIG[: CONFIG.index("def get_dev")] if score else CONFIG
    problem = made(write(tmp_path / "t", config), programs, timeout_seconds=0.2)
    rollout = evaluate_example(problem, {"code": source}, problem.train[0], programs)
    assert (rollout.failed, rollout.score) == (score is None, score or 0.0), rollout
    assert said in rollout.feedback


def test_data_come_from_beside_it_or_from_a_copy_of_co_bench(tmp_path: Path, programs: Programs) -> None:
    folder = write(tmp_path / "tasks" / "Some problem")
    data = tmp_path / "data" / "Some problem"
    data.mkdir(parents=True)
    for name in ("a.txt", "b.txt", "unknown.txt"):
        (folder / name).rename(data / name)
    with pytest.raises(ProblemError, match=r"found no data beside it; put the files of CO-Bench's 'Some problem' th"):
        made(folder, programs)
    spec = load_task_spec(folder)
    assert spec.data is not None
    for name, content in user_data.find(spec.data, tmp_path / "data"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    assert len(made(folder, programs).train) == 2


def test_a_mistake_of_the_folder_is_named_with_its_line(tmp_path: Path, programs: Programs) -> None:
    broken = CONFIG.replace("rows = [", "rows = missing + [")
    problem = made(write(tmp_path / "t", broken), programs)
    with pytest.raises(ProblemError, match=r"config.py, line 1\d: NameError"):
        problem.guide("", BEST, problem.train[0].reference)
    with pytest.raises(ProblemError, match=r"imports pandaz, which is not in the image"):
        made(write(tmp_path / "u", "import pandaz\n" + CONFIG), programs)
