from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from trace_bench.images.context import dependencies_context, worker_context, write_context
from trace_bench.images.layers import family_named
from trace_bench.suites.installed import load_suites
from trace_bench.trainers.registry import entry_of


def test_bytes_depend_on_contents_alone(tmp_path: Path) -> None:
    archives = []
    for number, mode in enumerate((0o600, 0o755)):
        file = tmp_path / f"{number}" / "a.py"
        file.parent.mkdir()
        file.write_text("x = 1\n")
        file.chmod(mode)
        os.utime(file, (number * 1000, number * 1000))
        target = io.BytesIO()
        write_context({"b/c/a.py": file, "Dockerfile": b"FROM x\n"}, target)
        archives.append(target.getvalue())
    assert archives[0] == archives[1]
    with tarfile.open(fileobj=io.BytesIO(archives[0])) as archive:
        assert archive.getnames() == ["b", "b/c", "Dockerfile", "b/c/a.py"]
        assert {(m.uid, m.mtime, m.mode) for m in archive if m.isfile()} == {(0, 0, 0o644)}


def test_worker_context_holds_the_worker_and_nothing_of_the_host() -> None:
    names = set(worker_context(family_named("core")))
    assert {"Dockerfile", "worker/trace_bench/worker/problem.py", "worker/trace_bench/errors.py"} <= names
    assert not {n for n in names if n.startswith(("worker/trace_bench/cli", "worker/trace_bench/gateway"))}


def test_what_runs_inside_imports_nothing_that_the_context_leaves_out(tmp_path: Path) -> None:
    """Every module of the worker, every trainer, every suite's builder: with the standard library and nothing else."""
    for name, content in worker_context(family_named("core")).items():
        if name.startswith("worker/"):
            target = tmp_path / name.removeprefix("worker/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    modules = [
        "trace_bench." + path.relative_to(tmp_path / "trace_bench").with_suffix("").as_posix().replace("/", ".")
        for path in sorted((tmp_path / "trace_bench" / "worker").rglob("*.py"))
        if not path.name.startswith("__")
    ]
    modules += [entry_of(name).partition(":")[0] for name in ("NoOp", "PrioritySearch")]
    modules += [suite.builder.partition(":")[0] for suite in load_suites().values() if suite.builder]
    code = f"import importlib, sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    code += f"for name in {modules!r}: importlib.import_module(name)\nprint(sys.modules['trace_bench'].__file__)"
    # -S: no site-packages, as if none of the host's libraries were installed.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path)) and len(modules) > 15


def test_dependencies_context_holds_the_wheels_it_was_given(tmp_path: Path) -> None:
    wheel, package = tmp_path / "x-1-py3-none-any.whl", tmp_path / "g++_12_amd64.deb"
    names = {"Dockerfile", "wheelhouse/requirements.txt", "wheelhouse/x-1-py3-none-any.whl"}
    assert set(dependencies_context(family_named("core"), [], [wheel], [])) == names
    both = set(dependencies_context(family_named("kernelbench-cpu"), [], [wheel], [package]))
    assert both == names | {"debian/.keep", "debian/g++_12_amd64.deb"}
