"""What a sandbox says of its hardware, from the kernel's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_bench.artifacts.outputs import Hardware
from trace_bench.worker import hardware

X86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R)\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"
GPU = {
    "dev/nvidia0": "",
    "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 1\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "due"),
    [(X86, "Intel(R) Xeon(R)"), (ARM, "implementer 0x41 part 0xd0c"), (POWER, "POWER9, altivec supported")],
)
def test_the_cpu_is_named_by_what_its_architecture_offers(tmp_path: Path, text: str, due: str) -> None:
    assert hardware.cpu_model(write(tmp_path, {"proc/cpuinfo": text})).endswith(due)


@pytest.mark.parametrize(
    ("files", "due"),
    [
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_cpus_are_those_that_the_job_may_use(tmp_path: Path, files: dict[str, str], due: float | None) -> None:
    root = write(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert hardware.described(root, [])["cpus"] == (due or len(os.sched_getaffinity(0)))


def test_gpu_driver_and_torch_are_read_without_importing_anything(tmp_path: Path) -> None:
    root = write(tmp_path, {**GPU, "site/torch-2.13.0+cpu.dist-info/METADATA": "", "site/torch/version.py": "1 / 0"})
    found = hardware.described(root, ["", str(root / "site")])
    assert (found["gpus"], found["driver"]) == (["NVIDIA H100 80GB HBM3"], "550.54.15")
    assert found["torch"] == "2.13.0+cpu"


def test_the_gpus_of_the_host_are_not_those_of_a_sandbox_without_their_devices(tmp_path: Path) -> None:
    root = write(tmp_path, {name: text for name, text in GPU.items() if not name.startswith("dev")})
    found = hardware.described(root, [])
    assert (found["gpus"], found["driver"], found["torch"]) == ([], "", "")


def test_what_is_found_fits_the_contract(tmp_path: Path) -> None:
    Hardware.model_validate(hardware.described())
    long = hardware.described(write(tmp_path, {"proc/cpuinfo": f"model name\t: {'x' * 999}\n"}), [])
    assert len(Hardware.model_validate(long).cpu) == hardware.LONGEST
