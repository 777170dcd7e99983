"""Files of KernelBench, in task folders and by themselves, without PyTorch."""

from __future__ import annotations

import ast
import io
import tarfile
import textwrap
from pathlib import Path

import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites.kernelbench.sources import number_of, parsed_constants, with_constants
from trace_bench.suites.registry import discover, resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.suites.task_files import pack_task
from trace_bench.worker.problem import ProblemError

FILE = """
import torch

batch_size = 4096  # rows
sizes = [64, 128]; dim = 2 * batch_size

class Model(torch.nn.Module):
    pass

def get_inputs():
    return [torch.rand(batch_size, dim)]

def get_init_inputs():
    return []
"""


def test_constants_are_replaced_where_the_top_level_assigns_them() -> None:
    found = with_constants(FILE, {"batch_size": 16, "sizes": [8]}, "problem.py")
    assert found == FILE.replace("4096", "16").replace("[64, 128]", "[8]")
    assert with_constants(FILE, {}, "problem.py") == FILE


@pytest.mark.parametrize("name", ["device", "rows"])
def test_a_constant_that_cannot_be_replaced_is_named(name: str) -> None:
    source = f"{FILE}device = torch.device('cpu')\n"
    with pytest.raises(
        ProblemError, match=f"problem.py: assigns no plain value and no arithmetic of numbers to {name}"
    ):
        with_constants(source, {name: 1}, "problem.py")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2048 * 2", 4096), ("N * M", 12), ("-N + 1", -2), ("(N + M) // 2 % 2", 1), ("2 ** 10", 1024), ("N / M", 0.75),
        ("+N", 3), ("1e300", None), ("2 ** 64", None), ("10 ** 10 ** 10", None), ("2 ** -1", None), ("N ** 65", None),
        ("(-8) ** 0.5", None), ("1 // 0", None), ("N << 40", None), ("K + 1", None), ("f(2)", None), ("True + 1", None),
        ("'a' * 9", None), ("[1] * 9", None), ("0 ** 99999", None),
    ],
)  # fmt: skip
def test_arithmetic_of_numbers_has_a_value_of_bounded_size(text: str, value: float | None) -> None:
    assert number_of(ast.parse(text, mode="eval").body, {"N": 3, "M": 4}) == value


def test_constants_that_arithmetic_assigns_are_replaced() -> None:
    source = "N = 2048 * 2\nM = N // 2 ; K = L * 2\nN = f()\nP = N * 2\n"
    found = with_constants(source, {"N": 16, "M": 8}, "problem.py")
    assert found == "N = 16\nM = 8 ; K = L * 2\nN = f()\nP = N * 2\n"
    assert with_constants("N = 2048 * 2; M = (3 + 4)\n", {"N": 1, "M": 2}, "problem.py") == "N = 1; M = (2)\n"
    for name in ("K", "P"):
        with pytest.raises(ProblemError, match=f"no arithmetic of numbers to {name}, which the sizes"):
            with_constants(source, {name: 1}, "problem.py")


def test_constants_are_written_as_arguments_are() -> None:
    assert parsed_constants("batch_size=16, sizes=[1, 2], kind='x'") == {"batch_size": 16, "sizes": [1, 2], "kind": "x"}
    assert parsed_constants("") == {}
    for wrong in ("16", "batch_size", "a=b", "a=1)+dict(b=2"):
        with pytest.raises(ProblemError, match="write 'batch_size=16, dim=256'"):
            parsed_constants(wrong)


def test_the_files_of_a_checkout_are_tasks(tmp_path: Path) -> None:
    level = tmp_path / "checkout" / "KernelBench" / "level2"
    level.mkdir(parents=True)
    (level / "7_Matmul_Scale.py").write_text(FILE)
    (level / "helper.py").write_text("def get_init_inputs(): pass\n")
    (tmp_path / "checkout" / "other.py").write_text(FILE)
    (entry,) = [e for e in discover(["kernelbench"], [tmp_path / "checkout"]) if e.folder.is_file()]
    assert entry.id == "kernelbench:level2/7_Matmul_Scale"
    assert resolve(entry.id, [tmp_path / "checkout"]) == entry

    spec = load_task_spec(entry.folder)
    assert spec.title == "Matmul Scale" and spec.tags == ("kernel", "level2") and spec.entry == "ModelNew"
    assert resolve_eval_kwargs(spec, {}, str)["size"] == "file"
    with tarfile.open(fileobj=io.BytesIO(pack_task(entry.folder))) as packed:
        text = {name: packed.extractfile(name).read().decode() for name in packed.getnames()}  # type: ignore[union-attr]
    assert text["problem.py"] == FILE
    assert text["template.py"].startswith(FILE) and text["template.py"].endswith("class ModelNew(Model):\n    pass\n")


def test_a_kernel_says_only_what_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "scaled"
    folder.mkdir()
    (folder / "problem.py").write_text(FILE)
    (folder / "template.py").write_text("")
    spec = """
        title = "Scaled"
        limits = {wall_seconds = 5}
        kernel.sizes.cpu = {batch_size = 16}
        candidates.template = "template.py"
    """
    (folder / "task.toml").write_text(textwrap.dedent(spec))
    found = load_task_spec(folder)
    assert found.kernel is not None and found.kernel.sizes == {"cpu": {"batch_size": 16}}
    assert found.limits.wall_seconds == 5 and found.limits.needs == ("machine_code",)
    assert found.timing_sensitive and found.score.failure == 0 and "speedup_low" in found.metrics
    assert found.raw["limits"]["memory_mb"] == 4096, "the builder sees the same"
    assert resolve_eval_kwargs(found, {}, str)["size"] == "cpu"
    with pytest.raises(ConfigError, match="size must be one of cpu, file, not 'huge'"):
        resolve_eval_kwargs(found, {"size": "huge"}, str)

    (folder / "problem.py").unlink()
    with pytest.raises(ConfigError, match=r"the task folder has no problem\.py"):
        load_task_spec(folder)
