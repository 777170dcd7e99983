"""Names of GPUs: how they are written, and which of them are one device.

A name is an index (``0``; of a slice ``0:1``), a UUID (``GPU-…``, ``MIG-…``), a CDI device (``vendor.com/class=name``)
or a device node (``/dev/…``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

GpuKind = Literal["nvidia", "cdi", "node"]

_INDEX = r"\d{1,4}(?::\d{1,4})?"
_UUID = r"(?:GPU|MIG)-[A-Za-z0-9/-]{1,80}"
_NVIDIA = re.compile(f"{_INDEX}|{_UUID}")
_CDI = re.compile(
    r"[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?"  # the CDI standard's
)
_NODE = re.compile(r"/dev(?:/[A-Za-z0-9_:.-]+)+")
_OF_NVIDIA = re.compile(rf"(?:nvidia\.com/gpu=|/dev/nvidia(?=\d))({_INDEX}|{_UUID})")


def gpu_kind(name: str) -> GpuKind:
    """The form in which an engine is asked for the GPU.

    Raises:
        ValueError: it is none of the four; the message goes on from what was written.

    >>> [gpu_kind(name) for name in ("0", "GPU-8f6e", "nvidia.com/gpu=0", "/dev/dri/renderD128")]
    ['nvidia', 'nvidia', 'cdi', 'node']
    """
    if _NVIDIA.fullmatch(name):
        return "nvidia"
    if _CDI.fullmatch(name) and not name.endswith("=all"):
        return "cdi"
    if _NODE.fullmatch(name) and not {".", ".."} & set(name.split("/")):
        return "node"
    raise ValueError(
        "must be the name of one GPU: an index (0), a UUID (GPU-…), a CDI device (vendor.com/class=name) or a device "
        "node (/dev/…)"
    )


def device_of(name: str) -> str:
    """The name of the GPU's lease: NVIDIA's index, CDI device and node of one number are the same device.

    An index and a UUID may be, too; only the host could tell.

    >>> {device_of(name) for name in ("0", "00", "nvidia.com/gpu=0", "/dev/nvidia0")}
    {'0'}
    >>> device_of("amd.com/gpu=0"), device_of("nvidia.com/gpu=GPU-8f6e")
    ('amd.com/gpu=0', 'GPU-8f6e')
    """
    found = _OF_NVIDIA.fullmatch(name)
    own = found.group(1) if found else name
    return ":".join(str(int(part)) for part in own.split(":")) if re.fullmatch(_INDEX, own) else own


def whole_devices(discovered: Sequence[str]) -> tuple[str, ...]:
    """The GPUs among the CDI devices that an engine knows, each once: it lists one by index, by UUID, and all as one.

    >>> whole_devices(["nvidia.com/gpu=all", "nvidia.com/gpu=0", "nvidia.com/gpu=GPU-8f6e", "acme.com/net=eth1"])
    ('nvidia.com/gpu=0',)
    """
    kinds: dict[str, list[str]] = {}
    for name in discovered:
        kind, _, device = name.partition("=")
        if kind.endswith("/gpu") and _CDI.fullmatch(name) and device != "all":
            kinds.setdefault(kind, []).append(device)
    found: list[str] = []
    for kind, devices in sorted(kinds.items()):
        by_index = sorted({d for d in devices if re.fullmatch(_INDEX, d)}, key=_numbers)
        sliced = {d.partition(":")[0] for d in by_index if ":" in d}
        # A GPU that is cut into slices is not given whole.
        chosen = [d for d in by_index if d not in sliced] or sorted(set(devices))
        found += [f"{kind}={device}" for device in chosen]
    return tuple(found)


def from_nvidia_smi(listing: str) -> tuple[str, ...]:
    """The devices of ``nvidia-smi -L``: indices, and UUIDs of the slices of a GPU that is cut into some.

    >>> from_nvidia_smi("GPU 0: NVIDIA H100 (UUID: GPU-8f6e)\\nGPU 1: NVIDIA H100 (UUID: GPU-11aa)\\n"
    ...                 "  MIG 3g.40gb Device 0: (UUID: MIG-77)\\n")
    ('0', 'MIG-77')
    """
    found: list[str] = []
    for line in listing.splitlines():
        if whole := re.match(r"GPU (\d+):", line):
            found.append(whole.group(1))
        elif piece := re.match(rf"\s+MIG .*\(UUID: ({_UUID})\)", line):
            if found and found[-1].isdigit():
                found.pop()
            found.append(piece.group(1))
    return tuple(found)


def _numbers(index: str) -> tuple[int, ...]:
    return tuple(int(part) for part in index.split(":"))
