"""The evaluations of the package llm4ad: listed when asked for, and built without its own ``__init__`` files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.suites.conftest import build_folder
from trace_bench.images.layers import family_named
from trace_bench.suites.registry import discover, resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import ProblemError, Programs

EVALUATION = """
from llm4ad.base import Evaluation
from llm4ad.task.optimization.tsp_construct.template import template_program, task_description

class TSPEvaluation(Evaluation):
    def __init__(self, timeout_seconds=30, n_instance=16, problem_size=50):
        super().__init__(template_program, task_description, timeout_seconds)
        self.sizes = range(2, 2 + n_instance)

    def evaluate_program(self, program_str, callable_func):
        if callable_func(0, 0, [1], [[0]]) != 1:
            raise ValueError("no such node")
        return [-1.0 * len(self.sizes), -0.5]
"""
TEMPLATE = '''
template_program = """
import numpy as np
def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    \'\'\'Choose the next node.\'\'\'
    return unvisited_nodes[0]
"""
task_description = "Visit all nodes."
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name with one task, whose own modules cannot be imported as a whole."""
    files = {
        "__init__.py": "import torch_and_windows",
        "task/__init__.py": "import torch_and_windows",
        "base/__init__.py": "from .evaluate import Evaluation",
        "base/evaluate.py": "class Evaluation:\n    def __init__(self, template, task, timeout):\n"
        "        self.template_program, self.task_description, self.timeout_seconds = template, task, timeout\n",
        "task/optimization/tsp_construct/__init__.py": "",
        "task/optimization/tsp_construct/evaluation.py": EVALUATION,
        "task/optimization/tsp_construct/template.py": TEMPLATE,
    }
    for name, text in files.items():
        path = tmp_path / "llm4ad" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_its_tasks_are_listed_when_they_are_asked_for_and_not_otherwise() -> None:
    asked = discover(["llm4ad_pkg"])
    assert len(asked) == 26
    assert not {entry.id for entry in asked} & {entry.id for entry in discover()}
    assert "llm4ad" not in sys.modules
    for entry in asked:
        spec = load_task_spec(entry.folder)
        assert spec.foreign is not None and spec.foreign.package == "llm4ad"
        assert entry.id == f"llm4ad_pkg:{spec.foreign.module.replace('.', '/')}"
        assert spec.score.direction == "maximize" and f"`{spec.entry}`" in spec.statement
        assert spec.executes_candidates({}) is (entry.id == "llm4ad_pkg:science_discovery/ode_1d")


def test_their_image_has_the_package_on_top_of_what_its_tasks_import() -> None:
    family = family_named("llm4ad+llm4ad_pkg")
    pinned = family.requirements[0].read_text()
    assert "\nllm4ad==1.11 " in pinned and "torch" not in pinned and "wandb" not in pinned


def test_an_evaluation_is_built_without_the_packages_own_init_and_judges_in_a_candidates_process(
    package: Path, programs: Programs
) -> None:
    folder = resolve("llm4ad_pkg:optimization/tsp_construct").folder
    problem = build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None, n_instance=3)
    (parameter,) = problem.parameters
    assert parameter.entry == "select_next_node" and str(parameter.value).startswith("import numpy as np")
    assert problem.objective.startswith("Visit all nodes.") and "Choose the next node." in problem.objective
    first = problem.train[0]
    rollout = evaluate_example(problem, problem.initial_state(), first, programs)
    assert (rollout.score, rollout.feedback) == (-3.0, "Score -3 (higher is better). Besides: -0.5.")
    wrong = "def select_next_node(a, b, c, d):\n    return 7\n"
    rollout = evaluate_example(problem, {"code": wrong}, first, programs)
    assert rollout.failed and rollout.score == -1e6 and "ValueError: no such node" in rollout.feedback
    assert not [name for name in sys.modules if name.partition(".")[0] in ("llm4ad", "torch_and_windows")]


def test_an_evaluation_that_exits_is_a_failure_of_the_program_and_ends_nothing(
    package: Path, programs: Programs
) -> None:
    evaluation = package / "llm4ad" / "task" / "optimization" / "tsp_construct" / "evaluation.py"
    evaluation.write_text(EVALUATION.replace('raise ValueError("no such node")', 'raise SystemExit("no such node")'))
    folder = resolve("llm4ad_pkg:optimization/tsp_construct").folder
    problem = build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None)
    wrong = "def select_next_node(a, b, c, d):\n    return 7\n"
    rollout = evaluate_example(problem, {"code": wrong}, problem.train[0], programs)
    assert rollout.failed and rollout.score == -1e6 and "SystemExit: no such node" in rollout.feedback


def test_without_the_package_or_with_another_version_of_it_the_sentence_says_so(
    package: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(name: str) -> None:
        build_folder(resolve(f"llm4ad_pkg:{name}").folder, programs, "llm4ad_pkg", seed=1, test_seed=None)

    with pytest.raises(ProblemError, match="has no task optimization/qap_construct"):
        build("optimization/qap_construct")
    evaluation = package / "llm4ad" / "task" / "optimization" / "tsp_construct" / "evaluation.py"
    evaluation.write_text("import numbaz\n")
    with pytest.raises(ProblemError, match="imports numbaz, which is not in the image"):
        build("optimization/tsp_construct")
    evaluation.write_text("class TSPEvaluation:\n    def __init__(self, timeout_seconds):\n        pass\n")
    with pytest.raises(ProblemError, match=r"TSPEvaluation\(n_instance=16.*raised TypeError"):
        build("optimization/tsp_construct")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(package)])
    with pytest.raises(ProblemError, match=r"not installed here.*llm4ad\+llm4ad_pkg"):
        build("optimization/tsp_construct")
