"""Memory of a GPU that two processes share, through CUDA's driver.

The one that makes it hands a descriptor to the other one, which maps it into its own context (virtual memory
management, CUDA driver API 6.14). Unlike CUDA's IPC handles, a descriptor works between processes of different users,
and a process without it cannot reach the memory.

Both the judge and the processes of kernels import this module.
"""

from __future__ import annotations

import ctypes
import socket
from types import SimpleNamespace
from typing import Any

HOST = "cpu"
"""In place of a GPU's name: memory that the driver of a test gives is memory of the host."""


class DriverError(Exception):
    """The driver refuses a call."""


class DeviceMemory:
    """Memory of the GPU that PyTorch uses, mapped into this process until it is closed.

    Attributes:
        pointer: its address on the GPU.
        size: bytes, as many as the driver gives at least.
    """

    def __init__(self, handle: Any, size: int) -> None:
        """Map what the driver calls `handle`, which is given up."""
        driver = _driver()
        self.size = size
        try:
            self.pointer = int(_done(driver.cuMemAddressReserve(size, 0, 0, 0)))
            _done(driver.cuMemMap(self.pointer, size, 0, handle, 0))
        finally:
            _done(driver.cuMemRelease(handle))
        access = driver.CUmemAccessDesc()
        access.location = _location()
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _done(driver.cuMemSetAccess(self.pointer, size, [access], 1))

    def flat(self, device: str) -> Any:
        """All of it as a tensor of bytes on `device`, valid until it is closed."""
        import torch

        if device == HOST:
            return torch.frombuffer((ctypes.c_uint8 * self.size).from_address(self.pointer), dtype=torch.uint8)
        interface = {"shape": (self.size,), "typestr": "|u1", "data": (self.pointer, False), "version": 3}
        return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device=device)

    def close(self) -> None:
        """Take it out of this process."""
        driver = _driver()
        _done(driver.cuMemUnmap(self.pointer, self.size))
        _done(driver.cuMemAddressFree(self.pointer, self.size))


def made(size: int) -> tuple[DeviceMemory, int]:
    """New memory of at least `size` bytes, and a descriptor by which another process can map it.

    Raises:
        DriverError: there is not so much.
    """
    driver = _driver()
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location = _location()
    wanted.requestedHandleTypes = kind
    smallest = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    unit = int(_done(driver.cuMemGetAllocationGranularity(wanted, smallest)))
    size = -(-size // unit) * unit
    handle = _done(driver.cuMemCreate(size, wanted, 0))
    descriptor = int(_done(driver.cuMemExportToShareableHandle(handle, kind, 0)))
    return DeviceMemory(handle, size), descriptor


def received(channel: socket.socket) -> DeviceMemory:
    """The memory whose descriptor and size come next over `channel`.

    Raises:
        DriverError: it cannot be mapped.
    """
    driver = _driver()
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    told, descriptors, _, _ = socket.recv_fds(channel, 16, 1)
    handle = _done(driver.cuMemImportFromShareableHandle(descriptors[0], kind))
    socket.close(descriptors[0])
    return DeviceMemory(handle, int(told))


def _location() -> Any:
    driver = _driver()
    location = driver.CUmemLocation()
    location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    location.id = 0
    return location


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _done(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver has returned behind its code."""
    code, *values = answer
    if int(code) != 0:
        raise DriverError(f"the GPU's driver refuses a call: {code.name}")
    return values[0] if values else None
