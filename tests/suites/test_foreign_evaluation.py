"""Folders in the shape of LLM4AD's own tasks: found, described, and built without its package."""

from __future__ import annotations

import importlib.util
import io
import sys
import tarfile
from pathlib import Path

import pytest

from tests.suites.conftest import build_folder
from trace_bench.errors import ConfigError
from trace_bench.suites import user_data
from trace_bench.suites.registry import discover, resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.suites.task_files import pack_task
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import ProblemError, Programs

EVALUATION = """
from __future__ import annotations
from typing import Any
import numpy as np
from llm4ad.base import Evaluation
from llm4ad.task.optimization.pick_construct.get_instance import GetData
from llm4ad.task.optimization.pick_construct.template import template_program, task_description

class PickEvaluation(Evaluation):
    def __init__(self, timeout_seconds=30, n_instance=3, **kwargs):
        super().__init__(template_program=template_program, task_description=task_description,
                         use_numba_accelerate=False, timeout_seconds=timeout_seconds)
        self._data = GetData(n_instance).generate()

    def evaluate_program(self, program_str: str, callable_func: callable) -> Any | None:
        return float(np.mean([float(callable_func(list(row))) for row in self._data]))
"""
TEMPLATE = '''
template_program = \'\'\'
import numpy as np
def pick(numbers: list) -> float:
    """Pick a number; the larger, the better."""
    return numbers[0]
\'\'\'
task_description = "Pick a large number of a list. \\
It is given."
'''
INSTANCES = """
class GetData:
    def __init__(self, n):
        self.n = n
    def generate(self):
        return [[1.0 + i, 2.0 + i] for i in range(self.n)]
"""
PARAMETERS = "name: PickEvaluation\ntimeout_seconds: 20\nn_instance: 2\nodd (1-3): 1\n"


def write(root: Path, **changed: str) -> Path:
    """A task ``optimization/pick_construct`` below `root`. Files without text are left out."""
    folder = root / "optimization" / "pick_construct"
    folder.mkdir(parents=True)
    files = {"evaluation": EVALUATION, "template": TEMPLATE, "get_instance": INSTANCES, "paras": PARAMETERS} | changed
    for name, text in files.items():
        if text:
            (folder / (f"{name}.yaml" if name == "paras" else f"{name}.py")).write_text(text)
    (folder / "__init__.py").write_text("from .evaluation import PickEvaluation\n")
    return folder


def test_they_are_found_described_and_take_the_place_of_the_package_in_a_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "llm4ad" / "task"
    folder = write(checkout)
    found = discover(["llm4ad_pkg"], [checkout])
    assert [entry.id for entry in found] == ["llm4ad_pkg:optimization/pick_construct"]
    elsewhere = tmp_path / "mine"
    write(elsewhere)
    both = discover(["llm4ad_pkg"], [elsewhere])
    assert len(both) == 27, "beside the 26 that ship"
    spec = load_task_spec(folder)
    assert (spec.entry, spec.interaction, spec.score.direction) == ("pick", "policy", "maximize")
    assert spec.statement == "Pick a large number of a list. It is given."
    assert spec.image == "llm4ad", "nothing that it imports needs the larger image"
    assert not spec.executes_candidates({}), spec.raw["foreign"]
    assert spec.raw["foreign"]["evaluation"] == "PickEvaluation"
    given = resolve_eval_kwargs(spec, {"anything": 1}, lambda key: key)
    assert given == {"timeout_seconds": 60.0, "n_instance": 2, "anything": 1}, "of paras.yaml, and 60 seconds at least"


def test_they_are_built_without_the_package_and_their_programs_run_in_processes_of_their_own(
    tmp_path: Path, programs: Programs
) -> None:
    folder = write(tmp_path)
    before = set(sys.modules)
    problem = build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None)
    assert not {name for name in set(sys.modules) - before if name.startswith("llm4ad")}
    (parameter,) = problem.parameters
    assert parameter.entry == "pick" and "the larger, the better" in parameter.signature
    assert "Pick a large number of a list." in problem.objective
    start = evaluate_example(problem, problem.initial_state(), problem.train[0], programs)
    assert (start.score, start.failed) == (1.5, False)
    better = "def pick(numbers):\n    return max(numbers)\n"
    assert evaluate_example(problem, {"code": better}, problem.train[0], programs).score == 2.5
    broken = "def pick(numbers):\n    return numbers[5]\n"
    failed = evaluate_example(problem, {"code": broken}, problem.train[0], programs)
    assert (failed.score, failed.failed) == (-1e6, True) and "line 2" in failed.feedback


def test_their_data_of_co_bench_are_read_beside_them(tmp_path: Path, programs: Programs) -> None:
    reads = EVALUATION.replace(
        "import numpy as np",
        "import numpy as np\nfrom llm4ad.task.optimization.co_bench.utils import load_subdir_as_text",
    ).replace(
        "GetData(n_instance).generate()",
        "[[float(x['text']) for x in rows] for rows in load_subdir_as_text('CO-Bench/CO-Bench', 'Numbers').values()]",
    )
    folder = write(tmp_path, evaluation=reads)
    with pytest.raises(ProblemError, match="put the files into a folder of that name in the task folder"):
        build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None)
    (folder / "Numbers").mkdir()
    (folder / "Numbers" / "a.txt").write_text("7\n8\n")
    problem = build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None)
    assert evaluate_example(problem, problem.initial_state(), problem.train[0], programs).score == 7.0


def test_published_data_of_the_user_are_put_beside_them(tmp_path: Path, programs: Programs) -> None:
    reads = EVALUATION.replace(
        "GetData(n_instance).generate()",
        "[[float(x['text']) for x in r] for r in load_subdir_as_text('CO-Bench/CO-Bench', 'My: numbers').values()]",
    ).replace("import numpy as np", "import numpy as np\nfrom llm4ad_loader import load_subdir_as_text")
    folder = write(tmp_path / "tasks", evaluation=reads)
    data = tmp_path / "data" / "my numbers"
    data.mkdir(parents=True)
    for name, text in (("a.txt", "7\n"), ("b.txt", "9\n"), ("config.py", "x = 1\n")):
        (data / name).write_text(text)
    spec = load_task_spec(folder)
    assert spec.data is not None and (spec.data.folder, spec.data.whole) == ("My: numbers", True)
    found = user_data.find(spec.data, data.parent)
    assert [name for name, _ in found] == ["My: numbers/a.txt", "My: numbers/b.txt", "My: numbers/config.py"]
    with tarfile.open(fileobj=io.BytesIO(pack_task(folder, found))) as tar:
        tar.extractall(tmp_path / "packed", filter="data")
    problem = build_folder(tmp_path / "packed", programs, "llm4ad_pkg", seed=1, test_seed=None)
    assert evaluate_example(problem, problem.initial_state(), problem.train[0], programs).score == 8.0
    with pytest.raises(ConfigError, match=r"has no folder 'My: numbers' with files"):
        user_data.find(spec.data, data)


@pytest.mark.parametrize(
    "decorated",
    [
        "@numba.njit",
        "@numba.jit(nopython=True)",
        "@numba.jit(numba.float64(numba.float64[:], numba.int32), nopython=True)",
        "@numba.njit([numba.float32(numba.float32[:, :], numba.uint8)])",
        "@numba.njit(nb.types.float64(nb.types.Array(nb.f8, 1, 'C'), nb.i8))",
    ],
)
def test_functions_of_numba_run_uncompiled_where_it_is_not_installed(
    tmp_path: Path, programs: Programs, decorated: str
) -> None:
    if importlib.util.find_spec("numba") is not None:
        pytest.skip("numba is installed")
    compiled = f"import numba\nimport numba as nb\n{decorated}\ndef add(values, by):\n    return sum(values) + by\n"
    text = EVALUATION.replace(_FUTURE, "").replace("\nclass ", f"\n{compiled}\nclass ", 1)
    text = text.replace("callable_func(list(row))", "add([callable_func(list(row))], 1)")
    problem = build_folder(write(tmp_path, evaluation=text), programs, "llm4ad_pkg", seed=1, test_seed=None)
    assert evaluate_example(problem, problem.initial_state(), problem.train[0], programs).score == 2.5


@pytest.mark.parametrize(
    ("imported", "image"), [("pandas as pd", "llm4ad+llm4ad_pkg"), ("sympy", "llm4ad+llm4ad_pkg"), ("math", "llm4ad")]
)
def test_their_image_has_what_they_import(tmp_path: Path, imported: str, image: str) -> None:
    spec = load_task_spec(write(tmp_path, evaluation=f"import {imported}\n{EVALUATION.replace(_FUTURE, '')}"))
    assert spec.image == image


_FUTURE = "from __future__ import annotations\n"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"template": "template_program = open('x').read()\n"}, "template.py: template_program is not literal text"),
        ({"template": "template_program = 'def a(): 1\\ndef b(): 2'\n"}, "template_program defines 2 functions"),
        ({"paras": "name: [\n"}, r"paras.yaml, line 2: is not YAML"),
        (
            {"paras": "name: Gone\n", "evaluation": EVALUATION + "class Two(Evaluation):\n    pass\n"},
            r"evaluation.py: one class .* there are 2 \(PickEvaluation, Two\); name the class in paras.yaml",
        ),
    ],
)
def test_what_cannot_be_described_is_a_mistake_with_its_file(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task_spec(write(tmp_path, **changed))


@pytest.mark.parametrize("name", ["use_protected_div", "use_numba_accelerate", "random_seed"])
def test_an_evaluation_that_changes_programs_is_refused(tmp_path: Path, programs: Programs, name: str) -> None:
    asks = EVALUATION.replace("use_numba_accelerate=False", f"{name}=True")
    with pytest.raises(ProblemError, match=f"asks for {name}, which changes the program"):
        build_folder(write(tmp_path, evaluation=asks), programs, "llm4ad_pkg", seed=1, test_seed=None)


def test_what_executes_the_text_of_a_program_stays_unprotected(tmp_path: Path) -> None:
    executes = EVALUATION.replace("return float", "exec(program_str)\n        return float")
    spec = load_task_spec(write(tmp_path, evaluation=executes))
    assert spec.executes_candidates({}) and "evaluation.py, line 16: exec" in spec.execution({})


def test_other_modules_of_llm4ad_are_missing_and_the_sentence_names_them(tmp_path: Path, programs: Programs) -> None:
    folder = write(tmp_path, evaluation=f"from llm4ad.tools.llm import x\n{EVALUATION.replace(_FUTURE, '')}")
    assert resolve("llm4ad_pkg:optimization/pick_construct", [tmp_path]).folder == folder
    with pytest.raises(ProblemError, match=r"imports llm4ad.tools, which is not in the image"):
        build_folder(folder, programs, "llm4ad_pkg", seed=1, test_seed=None)
