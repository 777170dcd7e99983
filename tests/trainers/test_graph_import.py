"""The graph library is imported once, cheaply, without its LLM client, and leaves the process as it found it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def python(code: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def fake_package(folder: Path, name: str, body: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(body)


def test_listing_the_trainers_imports_no_graph_library() -> None:
    out = python(
        "import sys, trace_bench.trainers.noop, trace_bench.trainers.priority_search, trace_bench.trainers.optimizers\n"
        "import trace_bench.trainers.proposer\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('opto', 'numpy', 'litellm', 'openai', 'black')))"
    )
    assert out == "[]\n"


def test_noop_trains_without_the_graph_library() -> None:
    out = python(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from memory_context import MemoryContext, numeric\nfrom trace_bench.trainers.noop import NoOp\n"
        "MemoryContext(numeric(), None, None).search(NoOp)\n"
        "print('opto' in sys.modules)"
    )
    assert out == "False\n"


def test_loading_writes_nothing_to_stdout_and_hides_the_replaced_packages_again() -> None:
    out = python(
        "import sys, inspect\nstack = inspect.stack\nfrom trace_bench.worker import graph\ngraph.load()\n"
        "print([n for n in ('litellm', 'openai', 'black', 'graphviz', 'autogen', 'numpy') if n in sys.modules])\n"
        "print(inspect.stack is stack)"
    )
    assert out == "[]\nTrue\n"


def test_installed_packages_are_neither_imported_nor_shadowed(tmp_path: Path) -> None:
    fake_package(tmp_path, "litellm", "print('imported litellm')")
    fake_package(tmp_path, "autogen", "print('imported autogen')")
    fake_package(tmp_path, "openai", "REAL = True")
    out = python(
        "import openai\nfrom trace_bench.worker import graph\ngraph.load()\n"
        "import sys\nprint(sys.modules['openai'].REAL)\nimport litellm",
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert out == "True\nimported litellm\n"


def test_a_real_numpy_stays_whole_and_arrays_can_be_iterated_as_nodes() -> None:
    out = python(
        "from trace_bench.worker import graph\nopto = graph.load()\nimport numpy\n"
        "print([float(n.data) for n in opto.Node(numpy.array([1.0, 2.0]))], numpy.arange(3).sum())"
    )
    assert out == "[1.0, 2.0] 3\n"


def test_lists_can_be_iterated_as_nodes_where_numpy_is_absent() -> None:
    out = python(
        "import sys, importlib.abc\n"
        "class Absent(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] == 'numpy': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import importlib.util\nreal = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'numpy' else real(name, *a)\n"
        "from trace_bench.worker import graph\nopto = graph.load()\n"
        "print([n.data for n in opto.Node([1, 2])], 'numpy' in sys.modules)"
    )
    assert out == "[1, 2] False\n"


def test_the_disabled_llm_client_says_so_instead_of_calling_out() -> None:
    out = python(
        "from trace_bench.worker import graph\nopto = graph.load()\n"
        "from trace_bench.errors import TrainerError\n"
        "try:\n    opto.OptoPrime([opto.ParameterNode(1, name='x')]).llm(messages=[])\n"
        "except TrainerError as error:\n    print(error)"
    )
    assert "gateway" in out


@pytest.mark.parametrize(
    ("body", "said"),
    [("__version__ = '9.9'", "named 'opto.optimizers'"), ("raise ImportError('broken')", "'opto.optimizers'")],
)
def test_a_missing_part_is_one_sentence(tmp_path: Path, body: str, said: str) -> None:
    fake_package(tmp_path, "opto", "")
    (tmp_path / "opto" / "version.py").write_text(body)
    out = python(
        "from trace_bench.worker import graph\nfrom trace_bench.errors import TrainerError\n"
        "try:\n    graph.load()\nexcept TrainerError as error:\n    print(error)",
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert said in out
    assert "0.1.3.8" in out


def test_another_version_is_used_if_it_has_what_is_needed(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("opto")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "opto", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "opto" / "version.py").write_text("__version__ = '9.9'")
    out = python(
        "from trace_bench.worker import graph\ngraph.load()\nimport opto.version\nprint(opto.version.__version__)",
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert out == "9.9\n"
