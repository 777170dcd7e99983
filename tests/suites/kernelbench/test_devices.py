"""The judge of GPUs, on a driver that stands in for NVIDIA's: memory reaches a kernel with its call and not before."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("cuda.bindings", reason="the package cuda-bindings is not installed")

from tests.forking import ForkingSpawner  # noqa: E402
from tests.suites.kernelbench.test_back_ends import MODEL, REFERENCE  # noqa: E402
from tests.suites.kernelbench.test_inline import compiler  # noqa: E402
from tests.worker.support import run  # noqa: E402
from trace_bench.suites.kernelbench import device_memory, devices  # noqa: E402
from trace_bench.suites.kernelbench.bench import Bench  # noqa: E402
from trace_bench.suites.kernelbench.devices import Cuda, device_of  # noqa: E402
from trace_bench.suites.kernelbench.outputs import Unequal  # noqa: E402
from trace_bench.suites.kernelbench.reference import Reference, Tensors  # noqa: E402
from trace_bench.worker.candidates import CandidatePrograms  # noqa: E402
from trace_bench.worker.problem import CandidateError, DeviceLost, Limits, ProblemError  # noqa: E402

pytestmark = compiler
HONEST = f"import torch\n{MODEL}\n        return torch.relu(x) * self.slope + y\n"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, in this process and all that are forked from it; its folder."""
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).with_name("driver.c")
    command = [
        "/usr/bin/gcc",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{library.name}",
        "-o",
        library,
        source,
    ]
    subprocess.run(command, check=True)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return library.parent


class StandIn(Cuda):
    """A GPU whose driver is the stand-in, and whose work is done by the CPU."""

    def __init__(self) -> None:
        self.name, self.architecture, self.works = "cpu", "sm_90a", True

    def settle(self) -> None:
        if not self.works:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def flush(self) -> None:
        from cuda.bindings import driver

        assert int(driver.cuCtxResetPersistingL2Cache()[0]) == 0


class Counting(ForkingSpawner):
    """Knows how many processes of kernels were there at a time."""

    most = 0

    def open(self, *args: Any, **named: Any) -> Any:
        found = super().open(*args, **named)
        self.most = max(self.most, len(self.numbers))
        return found


@pytest.fixture
def spawner(driver: Path) -> Counting:
    return Counting(LD_LIBRARY_PATH=str(driver))


@pytest.fixture
def bench(driver: Path, spawner: Counting) -> Bench:
    programs = CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]
    reference = Reference(REFERENCE, "problem.py", "float32")
    return Bench(programs, reference, Limits(wall_seconds=60, cpu_seconds=60), trials=9, threads=1, device=StandIn())


def test_a_kernel_is_measured_and_compared_and_is_there_alone(bench: Bench, spawner: Counting) -> None:
    found = bench.measure(HONEST)
    assert found.candidate > 0 and found.low <= found.speedup <= found.high
    assert spawner.most == 1 and spawner.numbers == []
    with pytest.raises(Unequal, match="of 2100 values differ"):
        bench.measure(HONEST.replace("relu", "abs"))
    with pytest.raises(CandidateError, match=r"call failed.*ValueError: mine"):
        bench.measure(HONEST.replace("return ", "raise ValueError('mine')\n        return "))


def test_each_call_has_memory_of_its_own_which_the_judge_gives_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    made = device_memory.made

    def counted(size: int) -> Any:
        memory, descriptor = made(size)
        given.append(os.fstat(descriptor).st_ino)
        return memory, descriptor

    monkeypatch.setattr(device_memory, "made", counted)
    before = _open_files()
    bench.measure(HONEST)
    # Three calls find out what the reference returns, in two processes; then nine times three processes make two calls.
    assert len(given) == 5 + 9 * 3 * 3 and len(set(given)) == len(given)
    assert _open_files() == before
    assert "stand-in" not in Path("/proc/self/maps").read_text()


def test_inputs_cannot_be_seen_in_memory_of_an_earlier_call(bench: Bench) -> None:
    """As a kernel that polls could, were the memory the same: here it stays what it was, and cannot be written to."""
    keeps = HONEST.replace(
        "        return ",
        "        kept = globals().setdefault('kept', (x, x.clone()))\n"
        "        assert kept[0] is x or torch.equal(*kept), 'the old memory has new inputs'\n        return ",
    )
    holds = f"_trace_bench_memory_close = None\n{keeps}\n_trace_bench_closed = []\n"
    # It keeps the old memory mapped, which the harness would give up.
    holds += (
        "from trace_bench.suites.kernelbench import device_memory\n"
        "device_memory.DeviceMemory.close = lambda self: _trace_bench_closed.append(self)\n"
    )
    assert bench.measure(holds).candidate > 0


def test_a_kernel_that_leaves_no_memory_has_failed_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.measure(HONEST)  # what the reference returns is known now
    monkeypatch.setattr(devices.device_memory, "made", _refuses_after(bench, calls=2))
    with pytest.raises((CandidateError, ProblemError), match="too little of the GPU's memory"):
        bench.measure(HONEST)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _refuses_after(bench: Bench, calls: int) -> Any:
    made, left = device_memory.made, [calls]

    def refusing(size: int) -> Any:
        left[0] -= 1
        return made(size if left[0] >= 0 else 1 << 60)

    return refusing


def test_a_gpu_that_does_nothing_any_more_is_no_failure_of_the_kernel(bench: Bench) -> None:
    bench.measure(HONEST)
    device = bench.device
    assert isinstance(device, StandIn)

    class Breaks(Counting):
        def close(self, *args: Any, **named: Any) -> Any:
            device.works = False  # what this kernel has done ends with it
            return super().close(*args, **named)

    broken = Bench(
        CandidatePrograms(Breaks(), seed=1),  # type: ignore[arg-type]
        bench.reference, bench.limits, trials=9, threads=1, device=device,
    )  # fmt: skip
    broken.__dict__["_outputs"] = bench._outputs
    with pytest.raises(
        DeviceLost, match=r"cannot be used any more after a kernel has failed: it refuses all work: CUDA"
    ):
        broken.measure("raise SystemExit")


def test_a_gpu_that_hangs_is_lost(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_ANSWERS_WITHIN", 0.1)
    device, forever = StandIn(), threading.Event()
    monkeypatch.setattr(device, "settle", forever.wait)
    with pytest.raises(DeviceLost, match=r"it has not answered for 0.1 s"):
        device.check()
    forever.set()


def test_the_driver_refuses_in_words(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_BYTES", "1")
    with pytest.raises(device_memory.DriverError, match=r"refuses a call: CUDA_ERROR_OUT_OF_MEMORY"):
        device_memory.made(1)
    with ExitStack() as stack, pytest.raises(CandidateError, match=r"^memory failed: its process leaves too little"):
        link = StandIn().link(stack, 64)
        link._fill(Tensors([], {}, 0), 64)  # type: ignore[attr-defined]


JOB = """
from tests.suites.kernelbench.test_devices import HONEST, REFERENCE, StandIn
from trace_bench.suites.kernelbench.bench import Bench
from trace_bench.suites.kernelbench.reference import Reference

def build(context):
    def guide(query, response, reference):
        limits = Limits(wall_seconds=60, cpu_seconds=60)
        bench = Bench(context.programs, Reference(REFERENCE, "problem.py", "float32"), limits, 9, 1, device=StandIn())
        print("MEASURED", bench.measure(HONEST).speedup)
        try:
            bench.measure("import socket\\nsocket.socket(socket.AF_INET, socket.SOCK_STREAM)\\n" + HONEST)
        except CandidateError as error:
            print("REFUSED", error)
        return 1.0, ""
    return problem(guide)
"""


def test_the_real_worker_hands_memory_over_and_filters_what_else_a_kernel_asks(driver: Path, tmp_path: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    got = run(tmp_path, JOB, env=env, timeout=240, limits={"score_timeout": 200})
    assert "MEASURED" in got.log, (got.log, got.stderr)
    assert "REFUSED compile failed at line 2: PermissionError" in got.log
    assert got.result is not None
    assert got.result["integrity"]["candidates"]["score"]["needs"] == ["files", "gpu", "machine_code"]


def test_a_task_that_wants_a_gpu_says_so_where_there_is_none() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ProblemError, match=r"device is cuda, and PyTorch finds no GPU here; ask for one: sandbox.gpus"):
        device_of("cuda")
