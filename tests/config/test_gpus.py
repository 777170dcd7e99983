"""Names of GPUs: which there are, and which of them are one device."""

from __future__ import annotations

import pytest

from trace_bench.config import parse_config
from trace_bench.config.gpus import device_of, from_nvidia_smi, gpu_kind, whole_devices
from trace_bench.errors import ConfigError

KINDS = {
    "0": "nvidia",
    "11": "nvidia",
    "0:1": "nvidia",
    "GPU-8f6e4a1c-0b0d-4a7e-9f2b-2f9f5f3f1f00": "nvidia",
    "MIG-7d2c9c5e-1b7e-5b6a-9e0a-0f9d7b0f0a11": "nvidia",
    "nvidia.com/gpu=0": "cdi",
    "amd.com/gpu=card1": "cdi",
    "/dev/dri/renderD128": "node",
    "/dev/nvidia0": "node",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_names_say_how_an_engine_is_asked(name: str, kind: str) -> None:
    assert gpu_kind(name) == kind


@pytest.mark.parametrize(
    "name",
    ["", " 0", "0,1", "-1", "all", "nvidia.com/gpu=all", "nvidia.com/gpu=0,1", "/dev", "/dev/", "/etc/passwd", "gpu0",
     "/dev/../etc/shadow", "/dev/./null", "/dev//x", "/dev/a b", "nvidia.com/gpu", "0\n"],
)  # fmt: skip
def test_what_names_no_one_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be the name of one GPU: an index"):
        gpu_kind(name)


@pytest.mark.parametrize(
    ("names", "device"),
    [
        (("0", "00", "nvidia.com/gpu=0", "/dev/nvidia0"), "0"),
        (("0:1", "nvidia.com/gpu=0:1"), "0:1"),
        (("GPU-8f6e", "nvidia.com/gpu=GPU-8f6e"), "GPU-8f6e"),
        (("amd.com/gpu=0",), "amd.com/gpu=0"),
        (("/dev/nvidia-uvm",), "/dev/nvidia-uvm"),
    ],
)
def test_names_of_one_device_are_one(names: tuple[str, ...], device: str) -> None:
    assert {device_of(name) for name in names} == {device}


def test_an_engines_list_holds_each_gpu_once() -> None:
    discovered = ["nvidia.com/gpu=all", "nvidia.com/gpu=10", "nvidia.com/gpu=2", "nvidia.com/gpu=GPU-8f6e",
                  "nvidia.com/gpu=GPU-11aa", "acme.com/net=eth1", "amd.com/gpu=0"]  # fmt: skip
    assert whole_devices(discovered) == ("amd.com/gpu=0", "nvidia.com/gpu=2", "nvidia.com/gpu=10")
    assert whole_devices(["nvidia.com/gpu=GPU-b", "nvidia.com/gpu=all", "nvidia.com/gpu=GPU-a"]) == (
        "nvidia.com/gpu=GPU-a",
        "nvidia.com/gpu=GPU-b",
    )
    sliced = ["nvidia.com/gpu=0", "nvidia.com/gpu=0:0", "nvidia.com/gpu=0:1", "nvidia.com/gpu=1"]
    assert whole_devices(sliced) == ("nvidia.com/gpu=0:0", "nvidia.com/gpu=0:1", "nvidia.com/gpu=1")
    assert whole_devices([]) == ()


def test_the_drivers_list_holds_each_gpu_or_its_slices() -> None:
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8f6e)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-11aa)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-77)\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-78)\n"
        "GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-99ff)\n"
    )
    assert from_nvidia_smi(listing) == ("0", "MIG-77", "MIG-78", "2")
    assert from_nvidia_smi("No devices were found\n") == ()


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (["0", "nvidia.com/gpu=0"], "names one device twice"),
        (["all"], "must be the name of one GPU"),
        (["/dev/../etc/shadow"], "must be the name of one GPU"),
    ],
)
def test_a_host_names_each_gpu_once_and_by_its_name(gpus: list[str], said: str) -> None:
    host = {"url": "unix:///run/docker.sock", "gpus": gpus}
    with pytest.raises(ConfigError, match=said):
        parse_config({"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "docker": {"hosts": [host]}})
