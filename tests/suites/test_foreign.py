"""Folders of foreign code: described from their source, built as a phase does, judged in candidate processes."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forking import ForkingSpawner
from tests.suites.conftest import BuildTask, build_folder
from trace_bench.config import parse_config
from trace_bench.config.selectors import catalog_of, select
from trace_bench.errors import ConfigError
from trace_bench.suites import foreign
from trace_bench.suites.foreign import source
from trace_bench.suites.registry import discover, resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import Problem, ProblemError, Programs
from trace_bench.worker.training import Rollout

FOLDERS = Path(__file__).parents[1] / "foreign"
SORTS = "def arrange(numbers):\n    return sorted(numbers.tolist())\n"


@pytest.fixture
def build(programs: Programs) -> BuildTask:
    """``build(folder, **eval_kwargs)``."""
    return lambda folder, **given: build_folder(
        FOLDERS / folder if isinstance(folder, str) else folder,
        programs,
        "llm4ad",
        **{"seed": 1, "test_seed": None, **given},
    )


@pytest.fixture
def run(programs: Programs) -> Callable[..., Rollout]:
    """``run(problem, value, …)``: the rollout of these values of its parameters on the first example."""
    return lambda problem, *values: evaluate_example(
        problem, dict(zip(problem.initial_state(), values, strict=True)), problem.train[0], programs
    )


def write(folder: Path, builder: str, **files: str) -> Path:
    """A folder whose module is `builder`, with `files` beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(builder)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def bundle(evaluation: str, imports: str = "", head: str = "") -> str:
    """A module whose evaluator has the body `evaluation`."""
    code, entry = "def f(x):\n    return x\n", "f"
    body = "\n".join(f"        {line}" for line in evaluation.splitlines())
    return f"""{head}
from llm4ad_loader import AutonomousEvaluatorGuide, Evaluation
from opto import trace

class E(Evaluation):
    def evaluate_program(self, program_str, callable_func):
{body}

def build_trace_problem(**kwargs):
    return dict(
        param=trace.node({code!r}, name="__code", trainable=True),
        guide=AutonomousEvaluatorGuide(E(**kwargs), {entry!r}, {imports!r}, timeout=kwargs.get("timeout_seconds")),
        train_dataset=dict(inputs=["q"], infos=[{{"imports": {imports!r}, "entry": {entry!r}}}]),
        optimizer_kwargs=dict(objective="do it"), metadata=dict(entry={entry!r}))
"""


def test_folders_are_found_below_a_root_that_the_user_names_and_nowhere_else(tmp_path: Path) -> None:
    found = {entry.id for entry in discover(None, [FOLDERS])}
    assert {"llm4ad:proxied", "llm4ad:executing", "llm4ad:agent", "llm4ad:objects"} <= found
    assert resolve("proxied", [FOLDERS]).folder == FOLDERS / "proxied"
    assert resolve("proxied", [FOLDERS / "proxied"]).folder == FOLDERS / "proxied"
    assert "llm4ad:proxied" not in {entry.id for entry in discover(None)}
    root = tmp_path / "LLM4AD" / "benchmark_tasks"
    write(root.parent.parent / "x", "")
    root.mkdir(parents=True)
    (root / "optimization").mkdir()
    write(root / "optimization" / "mine", "def build_trace_problem(**kwargs):\n    return {}\n")
    write(root / "no_task", "def build():\n    text = '''\ndef build_trace_problem\n'''\n")
    assert [entry.id for entry in discover(["llm4ad"], [root])] == ["llm4ad:optimization/mine"]


def test_what_is_read_from_the_source_is_what_a_task_toml_would_say() -> None:
    spec = load_task_spec(FOLDERS / "proxied")
    assert spec.title == "Order a list of numbers: how many neighbours stand in order."
    assert "ascending order" in spec.statement and "You are optimizing `arrange`" in spec.statement
    assert (spec.score.direction, spec.score.failure, spec.entry) == ("maximize", -1e6, "arrange")
    assert spec.limits.wall_seconds == 5.0, "of EVAL_KWARGS"
    assert spec.foreign is not None and spec.foreign.free and not spec.foreign.executes_candidates
    assert spec.raw["foreign"]["module"] == "__init__.py", "as job.json has it"


def test_a_builder_that_names_its_arguments_has_them_checked_and_others_are_free() -> None:
    where = lambda key: f"tasks[0].{key}"  # noqa: E731
    named = load_task_spec(FOLDERS / "agent")
    assert resolve_eval_kwargs(named, {"target": 4}, where) == {"target": 4.0}
    with pytest.raises(ConfigError, match=r"takes no 'traget'.*did you mean 'target'"):
        resolve_eval_kwargs(named, {"traget": 4}, where)
    free = load_task_spec(FOLDERS / "executing")
    assert resolve_eval_kwargs(free, {"goal": 3, "n-instance": [1]}, where) == {"goal": 3, "n_instance": [1]}
    with pytest.raises(ConfigError, match="goal must be a whole number"):
        resolve_eval_kwargs(free, {"goal": "x", "n_instance": 1}, where)
    with pytest.raises(ConfigError, match="timeout_seconds must be at least"):
        resolve_eval_kwargs(free, {"timeout_seconds": 0}, where)


@pytest.mark.parametrize(
    ("source", "sign"),
    [
        ("exec('1')", "line 1: exec"),
        ("run = eval", "line 1: eval"),
        ("run = getattr(__builtins__, 'ex' + 'ec')", "line 1: __builtins__"),
        ("import builtins\n", "line 1: imports builtins"),
        ("from subprocess import run\n", "line 1: imports subprocess"),
        ("import os\nos.system('x')\n", "line 2: system"),
        ("import importlib.util as u\nu.spec_from_file_location\n", "line 2: spec_from_file_location"),
        ("@trace.bundle(trainable=True)\ndef f(x):\n    pass\n", "line 1: a bundle whose code is trained"),
    ],
)
def test_a_file_that_may_execute_source_makes_the_jobs_unprotected(tmp_path: Path, source: str, sign: str) -> None:
    folder = write(tmp_path / "t", "def build_trace_problem():\n    pass\n", other=source)
    spec = load_task_spec(folder)
    assert spec.executes_candidates({})
    assert any(sign in found for found in spec.raw["foreign"]["signs"]), spec.raw["foreign"]
    # Whatever a task.toml says.
    (folder / "task.toml").write_text(
        'title = "t"\nstatement = "s"\ninteraction = "solve"\n[score]\ndirection = "maximize"\nfailure = -1\n'
        '[foreign]\nmodule = "__init__.py"\nexecutes_candidates = false\n'
    )
    assert load_task_spec(folder).executes_candidates({})


@pytest.mark.parametrize(
    ("source", "sign"),
    [
        ("if __name__ != '__main__':\n    exec('1')", "line 2: exec"),
        ("def f(s):\n    if __name__:\n        exec(s)", "line 3: exec"),
        ("def f(s, __name__):\n    if __name__ == '__main__':\n        exec(s)", "line 3: exec"),
        ("__name__ = '__main__'\nif __name__ == '__main__':\n    exec('1')", "line 3: exec"),
        ("if __name__ == '__main__':\n    pass\nelse:\n    exec('1')", "line 4: exec"),
        ("from os import system\nsystem('x')", "line 2: system"),
        ("from os import system as s\n", "line 1: system"),
        ("from os import *\n", "line 1: all names of os"),
        ("import os as o\no.system('x')", "line 2: system"),
        ("import os\nclass A:\n    def f(self, s):\n        self.o = os\n        self.o.system(s)", "line 5: system"),
        ("import os\np = q = os\nr = p\nr.popen('x')", "line 4: popen"),
        ("__builtins__['exec']('1')", "line 1: __builtins__"),
        ("globals()['__builtins__']['exec']('1')", "line 1: __builtins__"),
        ("__import__('builtins').exec('1')", "line 1: __import__"),
        ("import os\ngetattr(os, 'system')('x')", "line 2: system"),
        ("import os\nvars(os)['system']('x')", "line 2: the names of os"),
        ("import os as o\no.__dict__['system']('x')", "line 2: the names of os"),
        ("import os\ndef f(name):\n    return getattr(os, name)", "line 3: an attribute whose name is not constant"),
        ("import os\na, b = os, 1\na.system('x')", "line 2: os handed on"),
        ("import os as o\ndef f(m=o):\n    m.system('x')", "line 2: os handed on"),
        ("g = getattr", "line 1: getattr that is not called at once"),
        ("from operator import methodcaller as m\nm('sys' + 'tem')", "line 2: an attribute whose name is not"),
        ("import sys\nsys.modules['os']", "line 2: modules"),
        ("import pickle\npickle.loads(b'')", "line 1: imports pickle"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "line 2: unpickling"),
        ("import timeit\ntimeit.timeit('1')", "line 1: imports timeit"),
        ("import code\ncode.InteractiveInterpreter()", "line 1: imports code"),
        ("import importlib\nimportlib.import_module('q')", "line 1: imports importlib"),
        ("import pandas as pd\npd.eval('1')", "line 1: imports pandas"),
        ("from numpy import testing\ntesting.runstring", "line 1: imports numpy.testing"),
        ("import numpy as np\nnp.testing", "line 2: testing"),
        ("from .gone import x", "line 1: imports .gone, which is no file of the folder"),
        ("from ...above import x", "line 1: imports ...above, which is no file of the folder"),
        ("import written", "line 1: imports written, which is not known to execute nothing"),
        ("from opto.trace import bundle as b\nT = True\n@b(trainable=T)\ndef f(x):\n    pass", "line 3: a bundle"),
        ("import opto.trace as t\nk = {'trainable': True}\n@t.bundle(**k)\ndef f(x):\n    pass", "line 3: a bundle"),
        ("import gymnasium\ngymnasium.make('written:Env-v0')", "line 2: an import by name"),
    ],
)
def test_other_ways_to_execute_source_are_seen_too(tmp_path: Path, source: str, sign: str) -> None:
    folder = write(tmp_path / "t", "def build_trace_problem():\n    pass\n", other=source)
    found = load_task_spec(folder).raw["foreign"]
    assert found["executes_candidates"] and any(f"other.py, {sign}" in text for text in found["signs"]), found


@pytest.mark.parametrize(
    "source",
    [
        "if __name__ == '__main__':\n    exec('1')",
        "if '__main__' == __name__:\n    import pickle",
        "import os\nimport re\nos.path.join('a', 'b')\nre.compile('a')",
        "import numpy as np\nimport scipy.optimize\nfrom numpy.typing import NDArray\nnp.load('x', allow_pickle=False)",
        "import collections.abc, concurrent.futures\nfrom typing import *",
        "import gym\nimport numba, tqdm, pygame, matplotlib.pyplot as plt\nenv = gym.make('Acrobot-v1')",
        "from llm4ad_loader import Evaluation\nfrom opto.trainer.guide import Guide\nfrom opto import trace\n"
        "x = trace.node(1, trainable=True)\n@trace.bundle(trainable=False)\ndef f(x):\n    pass",
        "from . import helper\nfrom .helper import x\nimport helper\nfrom helper import y",
        "class A:\n    def f(self):\n        self.system = 1\n        return getattr(self, 'system_', self.eval(2))",
    ],
)
def test_what_executes_nothing_has_no_sign(tmp_path: Path, source: str) -> None:
    folder = write(tmp_path / "t", "def build_trace_problem():\n    pass\n", other=source, helper="x = y = 1\n")
    assert list(foreign.signs_of_execution(folder)) == []


def test_a_module_that_another_file_of_the_folder_has_renamed_is_known_by_its_new_name(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "t", "from .helper import o as p\np.system('x')\n", helper="import os as o\n", user="import helper"
    )
    assert list(foreign.signs_of_execution(folder)) == ["__init__.py, line 2: system"]


def test_what_executes_nothing_is_protected_unless_the_config_asks_for_the_scorer() -> None:
    spec = load_task_spec(FOLDERS / "proxied")
    assert not spec.executes_candidates({}) and not spec.executes_candidates({"execute_in_scorer": False})
    assert spec.executes_candidates({"execute_in_scorer": True})
    assert not list(foreign.signs_of_execution(FOLDERS / "agent")), "re.compile and its like are none"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def build_trace_problem(:\n    pass\n", r"__init__.py, line 1: is not Python"),
        (
            "if True:\n    x = '''\ndef build_trace_problem(a)'''\n",
            r"defines no function build_trace_problem at its top",
        ),
    ],
)
def test_a_module_that_cannot_be_read_is_a_mistake_with_its_line(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task_spec(write(tmp_path / "t", source))


def test_the_evaluator_calls_the_program_in_a_process_of_its_own(
    build: BuildTask, run: Callable[..., Rollout], spawner: object
) -> None:
    before = set(sys.modules)
    problem = build("proxied", n_instance=2)
    (parameter,) = problem.parameters
    assert (parameter.name, parameter.kind, parameter.entry) == ("code", "code", "arrange")
    assert "def arrange(numbers: np.ndarray)" in parameter.signature and "You are optimizing" in problem.objective
    start, better = run(problem, parameter.value), run(problem, SORTS)
    assert 0 < start.score < better.score == 1.0 and not better.failed
    assert better.feedback == "Score 1 (higher is better)."
    assert start.score == run(problem, parameter.value).score
    pretended = {"opto", "llm4ad_loader", "matplotlib"}
    if importlib.util.find_spec("matplotlib") is not None:  # the real one stays, where it is installed
        pretended.remove("matplotlib")
    left = {name for name in set(sys.modules) - before if name.partition(".")[0] in pretended}
    assert left == set(), "stand-ins are there while code of the task runs, and not after"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def arrange(numbers)\n    return 1\n", "compile failed at line 1"),
        ("def other(numbers):\n    return 1\n", "arrange"),
        ("def arrange(numbers):\n\n    return numbers / nothing\n", "call failed at line 3: NameError"),
        ("def arrange(values):\n    return values\n", "called with numbers, which it does not take"),
        ("def arrange(numbers):\n    return [0.0]\n", "the evaluator raised ValueError: the answer is no order"),
        ("def arrange(numbers):\n    return object()\n", "output failed"),
        ("import os\ndef arrange(numbers):\n    os._exit(0)\n", "died failed"),
        ("def arrange(numbers):\n    while True: pass\n", "timeout failed"),
    ],
)
def test_a_program_that_fails_gets_what_a_failure_is_worth_and_the_reason(
    build: BuildTask, run: Callable[..., Rollout], source: str, said: str
) -> None:
    rollout = run(build("proxied", n_instance=2, timeout_seconds=0.5), source)
    assert rollout.failed and rollout.score == -1e6
    assert said in rollout.feedback, rollout.feedback


def test_an_evaluator_that_exits_has_raised(build: BuildTask, run: Callable[..., Rollout], tmp_path: Path) -> None:
    problem = build(write(tmp_path / "t", bundle("import sys\nsys.exit(callable_func(3))")))
    rollout = run(problem, "def f(x):\n    return x\n")
    assert rollout.failed and rollout.score == -1e6 and "the evaluator raised SystemExit: 3" in rollout.feedback
    swallowed = "try:\n    callable_func(3)\nexcept Exception:\n    raise SystemExit from None"
    rollout = run(build(write(tmp_path / "u", bundle(swallowed))), "def f(x):\n    return y\n")
    assert rollout.failed and "call failed at line 2: NameError" in rollout.feedback


def test_an_evaluator_that_goes_on_after_a_failure_has_the_last_word(
    build: BuildTask,
    run: Callable[..., Rollout],
    spawner: ForkingSpawner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tolerant = """total = 0
for x in range(4):
    try:
        total += callable_func(x)
    except Exception:
        total -= 10
return total"""
    problem = build(write(tmp_path / "tolerant", bundle(tolerant)))
    rollout = run(problem, "def f(x):\n    assert x != 1, 'one'\n    return x\n")
    assert rollout.score == 0 - 10 + 2 + 3
    assert "It failed on the way: call failed at line 2: AssertionError: one" in rollout.feedback
    opened: list[int] = []
    start = spawner.open
    monkeypatch.setattr(spawner, "open", lambda *given: opened.append(1) or start(*given))
    assert run(problem, "def f(x):\n    raise KeyError\n").score == -40
    assert len(opened) == 4, "one that raised is started again"
    assert run(problem, "import os\ndef f(x):\n    os._exit(1)\n").score == -40
    assert len(opened) == 5, "one that died is not"


@pytest.mark.parametrize(
    ("returned", "score", "said"),
    [
        ("-3", -3.0, "Score -3 (higher"),
        ("(2, 'because')", 2.0, "Besides: because."),
        ("{'score': 4, 'gap': 0.5}", 4.0, "Besides: gap 0.5."),
        ("__import__('numpy').array([-5.0, -0.1])", -5.0, "Besides: -0.1."),
        ("None", None, "gave None, which is no finite number"),
        ("float('inf')", None, "gave inf"),
        ("'high'", None, "gave high"),
    ],
)
def test_what_an_evaluator_may_return(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path, returned: str, score: float | None, said: str
) -> None:
    rollout = run(build(write(tmp_path / "t", bundle(f"return {returned}"))), "def f(x):\n    return x\n")
    assert rollout.failed is (score is None) and rollout.score == (-1e6 if score is None else score)
    assert said in rollout.feedback


def test_lines_are_those_of_the_program_and_not_of_the_header_above_it(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    header = "import math\nimport numpy as np\n\n"
    problem = build(write(tmp_path / "t", bundle("return callable_func(2)", imports=header)))
    assert run(problem, "def f(x):\n    return math.sqrt(x)\n").score == pytest.approx(math.sqrt(2))
    assert "at line 2: ZeroDivisionError" in run(problem, "def f(x):\n    return x / 0\n").feedback


def test_arguments_that_cannot_cross_are_the_tasks_fault_and_the_sentence_says_what_to_do(
    build: BuildTask, run: Callable[..., Rollout]
) -> None:
    problem = build("objects")
    with pytest.raises(ProblemError, match=r"measure with what no other process.*type Box.*execute_in_scorer: true"):
        run(problem, problem.parameters[0].value)
    inside = build("objects", execute_in_scorer=True)
    assert run(inside, inside.parameters[0].value).score == 3.0
    assert run(inside, "def measure(box):\n    raise SystemExit\n").score == -1e6
    assert "compile failed: SyntaxError" in run(inside, "def measure(box\n").feedback
    assert "no function measure" in run(inside, "x = 1\n").feedback


def test_in_the_scorer_too_a_program_has_its_time(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    problem = build(
        write(tmp_path / "t", bundle("return callable_func(2)")), execute_in_scorer=True, timeout_seconds=0.2
    )
    assert "took more than 0.2 s" in run(problem, "def f(x):\n    while True: pass\n").feedback


def test_a_guide_that_executes_source_itself_does_so_and_what_it_raises_is_the_programs(
    build: BuildTask, run: Callable[..., Rollout]
) -> None:
    problem = build("executing")
    assert run(problem, problem.parameters[0].value).score == 0.2
    assert run(problem, "def double(x):\n    return 2 * x\n").score == 1.0
    assert "the guide raised NameError" in run(problem, "def double(x):\n    return y\n").feedback


def test_an_agent_of_several_nodes_is_one_operator(build: BuildTask, run: Callable[..., Rollout]) -> None:
    problem = build("agent", target=5.0)
    assert problem.initial_state() == {"a": 1.0, "b": 1.0}
    assert [len(problem.train), len(problem.validate), len(problem.test)] == [1, 2, 0]
    assert len(build("agent", test_seed=7).test) == 2, "held-out data are there once training is over"
    assert run(problem, 2.0, 3.0).score == 0.0
    assert run(problem, 2.0, 2.0).score == -1.0


def test_files_beside_the_module_are_found_by_bare_names_and_hide_nothing_of_the_standard_library(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from get_instance import NUMBER\nimport colorsys\ncolorsys.rgb_to_hsv\nfrom . import more\n"
    for name, number in (("one", 1), ("two", 2)):
        monkeypatch.delitem(sys.modules, "colorsys", raising=False)
        files = {"get_instance": f"NUMBER = {number}\n", "colorsys": "raise OSError", "more": "MORE = 10\n"}
        folder = write(tmp_path / name, bundle("from more import MORE\nreturn NUMBER + MORE", head=head), **files)
        assert run(build(folder), "def f(x):\n    return x\n").score == 10 + number, "and each finds its own"
    assert "get_instance" not in sys.modules
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import pandaz\ndef build_trace_problem(): pass\n", "imports pandaz, which is not in the image"),
        ("def build_trace_problem():\n    return [][1]\n", r"__init__.py, line 2: IndexError"),
        ("def build_trace_problem():\n    return None\n", "returned NoneType where a dict is expected"),
        ("def build_trace_problem():\n    return {'param': 1}\n", "a dict without 'guide'; it has param"),
        (bundle("return 1").replace('name="__code", trainable=True', "name='x'"), "not a trainable node"),
        (bundle("return 1").replace('inputs=["q"]', "inputs=[]"), "0 inputs and 1 infos"),
        (bundle("return 1").replace('dict(inputs=["q"]', 'dict(xs=["q"]'), "give a dict with inputs and infos"),
        (bundle("return 1", head="from opto import optimizers"), "imports .*optimizers"),
        (
            bundle("return 1").replace("E(**kwargs)", "E(use_numba_accelerate=True)"),
            "use_numba_accelerate, which changes",
        ),
        (bundle("return 1", head="import llm4ad_loader as l\nl.load_subdir_as_pickle('CO', 'mis')"), "unpickles mis"),
        (bundle("return 1", head="import llm4ad_loader as l\nl.load_subdir_as_text('CO', 'mis')"), "no network"),
        (
            bundle("return 1", head="@__import__('opto.trace').trace.bundle(trainable=True)\ndef g(): pass"),
            "code of a bundle",
        ),
    ],
)
def test_a_folder_that_does_not_build_fails_in_one_sentence(
    build: BuildTask, tmp_path: Path, module: str, message: str
) -> None:
    with pytest.raises(ProblemError, match=message):
        build(write(tmp_path / "t", module))


def test_a_module_that_is_missing_only_when_it_evaluates_is_the_tasks_fault_too(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    problem = build(write(tmp_path / "t", bundle("import pandaz\nreturn 1")))
    with pytest.raises(ProblemError, match="imports pandaz"):
        run(problem, "def f(x):\n    return x\n")


def test_data_that_a_folder_would_download_are_read_from_beside_it(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    head = "from llm4ad_loader import load_subdir_as_text"
    evaluation = "return len(load_subdir_as_text('CO-Bench/CO-Bench', 'Some data')['a.txt'])"
    folder = write(tmp_path / "t", bundle(evaluation, head=head))
    (folder / "Some data").mkdir()
    (folder / "Some data" / "a.txt").write_text("1 2\n3\n")
    assert run(build(folder), "def f(x):\n    return x\n").score == 2.0


def test_packages_that_are_not_there_are_stood_in_for(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    head = "import numba\nimport gym\nimport tqdm\n@numba.jit(nopython=True)\ndef twice(x):\n    return 2 * x\n"
    folder = write(tmp_path / "t", bundle("return twice(len(gym.spaces.__name__) > 0)", head=head))
    assert run(build(folder), "def f(x):\n    return x\n").score == 2.0
    assert "gym" not in sys.modules


def test_problems_are_the_same_in_two_builds(build: BuildTask, run: Callable[..., Rollout]) -> None:
    problems: list[Problem] = [build("proxied"), build("proxied")]
    values = {run(problem, problem.parameters[0].value).score for problem in problems}
    assert len(values) == 1


def test_only_arguments_that_the_template_changes_in_place_come_back(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    template = "def f(chosen, costs):\n    chosen.append(len(chosen))\n    return chosen\n"
    module = bundle(
        "chosen, costs = [], [5, 7]\nfor _ in costs:\n    callable_func(chosen, costs)\n"
        "return 10 * len(chosen) + sum(costs)"
    )
    folder = write(tmp_path / "t", f"ENTRY_NAME = 'f'\nTEMPLATE_FUNCTION = {template!r}\n{module}")
    assert load_task_spec(folder).raw["foreign"]["in_place"] == [0]
    problem = build(folder)
    assert run(problem, template).score == 20 + 12
    assert run(problem, "def f(chosen, costs):\n    chosen += [1, 2]\n    costs.clear()\n").score == 40 + 12
    assert "no longer of type list" not in run(problem, "def f(chosen, costs):\n    chosen = 7\n").feedback
    assert "NameError: name 'f'" in run(problem, "x = 1\n").feedback


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("a[0] = b", [0]),
        ("b.sort()\n    del a[1]", [0, 1]),
        ("a = list(a)\n    a.append(1)", []),
        ("c = a\n    c.append(1)", []),
        ("return a[0] + b.index(3)", []),
    ],
)
def test_what_a_template_changes_is_read_from_its_source(body: str, changed: list[int]) -> None:
    assert source.changed_arguments(f"def f(a, b):\n    {body}\n", "f") == changed


def test_names_that_numpy_has_lost_are_there_while_the_task_runs(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    import numpy as np

    folder = write(
        tmp_path / "t", bundle("return np.float_(2) + np.product([3, 4])", head="import numpy as np\nX = np.Inf")
    )
    assert run(build(folder), "def f(x):\n    return x\n").score == 14.0
    assert not hasattr(np, "float_")


def test_episodes_of_gym_are_the_same_in_every_evaluation(
    build: BuildTask, run: Callable[..., Rollout], tmp_path: Path
) -> None:
    head = "import gym\nENV = gym.make('Pendulum-v1')"
    folder = write(tmp_path / "t", bundle("return [float(ENV.reset()[0][0]) for _ in range(2)]", head=head))
    rollouts = [
        run(problem, "def f(x):\n    return x\n") for problem in (build(folder), build(folder)) for _ in range(2)
    ]
    assert len({rollout.feedback for rollout in rollouts}) == 1
    first, second = rollouts[0].feedback.removeprefix("Score ").split(" (higher is better). Besides: ")
    assert abs(float(first) - float(second.rstrip("."))) > 1e-6, "and two of one evaluation differ"


def test_a_selector_gives_free_arguments_to_the_tasks_that_take_any() -> None:
    config = parse_config(
        {"tasks": [{"id": "llm4ad:*ed", "eval_kwargs": {"n_instance": 2}}], "trainers": ["NoOp"]}, file="here"
    )
    chosen = {task.id: dict(task.eval_kwargs) for task in select(config, catalog_of(config, [FOLDERS])).tasks}
    assert chosen["llm4ad:proxied"] == {"n_instance": 2}
