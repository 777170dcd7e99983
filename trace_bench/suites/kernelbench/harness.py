# mypy: ignore-errors
"""What runs before the source of a kernel in its own process, and then makes its module, hands it inputs, and copies
out what it returns.

None of this is a defence: it shares a process with the kernel, which may replace all of it. The judge relies only on
the bytes in shared memory and on its own clock.
"""

import os
import sys
import types

if "device_channel" not in globals():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton has a compiler for GPUs alone


def _trace_bench_load_inline(*args, **kwargs):
    """In place of PyTorch's: what the kernel asks for has been built."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    name = "trace_bench_extension"
    spec = spec_from_loader(name, ExtensionFileLoader(name, globals()["library_path"]))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if "library_path" in globals():
    import torch.utils

    torch.utils.cpp_extension = types.ModuleType("torch.utils.cpp_extension")
    torch.utils.cpp_extension.load_inline = _trace_bench_load_inline
    sys.modules["torch.utils.cpp_extension"] = torch.utils.cpp_extension


def trace_bench_kernel(op, *args):
    """``make``: build the module. ``run``: call it on tensors in the shared memory, and copy its outputs there; without
    a place for them, only say what they are."""
    _trace_bench_reach_memory()
    return globals()[f"_trace_bench_{op}"](*args)


def _trace_bench_reach_memory():
    """Have the memory of this call as a tensor of bytes."""
    import torch

    global _trace_bench_flat, _trace_bench_memory
    if "device_channel" not in globals():
        _trace_bench_flat = torch.frombuffer(globals()["shared_memory"], dtype=torch.uint8)
        return
    import socket

    from trace_bench.suites.kernelbench import device_memory

    if "_trace_bench_memory" in globals():
        _trace_bench_memory.close()
    else:
        global _trace_bench_channel
        number = int(globals()["device_channel"].rpartition("/")[2])
        _trace_bench_channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, number)
        if torch.cuda.is_available():
            torch.cuda.init()
            torch.cuda.synchronize()  # the driver's calls need a context
    _trace_bench_memory = device_memory.received(_trace_bench_channel)
    _trace_bench_flat = _trace_bench_memory.flat("cuda" if torch.cuda.is_available() else "cpu")


def _trace_bench_make(name, arguments, seed, threads, dtype):
    import ctypes

    import torch

    # Freed memory stays with the process, in one piece. Otherwise whether malloc can reuse what it has kept is chance,
    # and a process that is unlucky takes several times as long in every call.
    libc = ctypes.CDLL(None)
    libc.mallopt(-4, 0)  # M_MMAP_MAX: no tensor has pages of its own
    libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: nothing goes back
    libc.mallopt(-2, 1 << 26)  # M_TOP_PAD: what is added is large
    libc.mallopt(1, 0)  # M_MXFAST: neighbours that are free become one

    global _trace_bench_module
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    if name not in globals():
        raise NameError(f"the program does not define {name}")
    _trace_bench_module = globals()[name](*map(_trace_bench_tensor, arguments))
    if isinstance(_trace_bench_module, torch.nn.Module):
        # Parameters are made on the CPU, so that a seed gives the same ones everywhere.
        _trace_bench_module = _trace_bench_module.to(_trace_bench_flat.device)
        if dtype != "float32":
            _trace_bench_module = _trace_bench_module.to(getattr(torch, dtype))


def _trace_bench_tensor(value):
    import torch

    if isinstance(value, dict) and value.keys() == {"place", "dtype", "shape"}:
        return _trace_bench_view(value["place"], getattr(torch, value["dtype"]), value["shape"])
    return value


def _trace_bench_view(place, dtype, shape):
    import math

    return _trace_bench_flat[place : place + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _trace_bench_run(arguments, place=None):
    import torch

    with torch.no_grad():
        found = _trace_bench_module(*map(_trace_bench_tensor, arguments))
        several = isinstance(found, (tuple, list))
        told = []
        for tensor in found if several else [found]:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"forward() returned {type(tensor).__name__} where a tensor is due")
            told.append([str(tensor.dtype).removeprefix("torch."), list(tensor.shape)])
            if place is not None:
                _trace_bench_view(place, tensor.dtype, tensor.shape).copy_(tensor)
                place += -(-tensor.numel() * tensor.element_size() // 64) * 64
        if _trace_bench_flat.is_cuda:
            torch.cuda.synchronize()
    return {"several": several, "tensors": told}


def _trace_bench_count(arguments):
    """Count the floating-point operations of a call's matrix products and convolutions.

    PyTorch's own counter is not used: it imports ``torch._dynamo``, which takes seconds and makes a temporary folder,
    and this process can make none. Only PyTorch's formulas are used.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    total = 0

    class Counter(TorchDispatchMode):
        pass

    def dispatch(self, operation, types, args=(), kwargs=None):
        nonlocal total
        kwargs = kwargs or {}
        formula = flop_registry.get(operation._overloadpacket)
        if formula is None:
            with self:  # what it is made of may have formulas
                made = operation.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        made = operation(*args, **kwargs)
        if formula is not None:
            total += formula(*args, **kwargs, out_val=made)
        return made

    Counter.__torch_dispatch__ = dispatch  # not in the class: PyTorch wraps one that is there in torch._dynamo.disable
    with Counter():
        _trace_bench_run(arguments)
    return total
