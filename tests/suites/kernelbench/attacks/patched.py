"""Attacks that replace the clock, the comparison or functions of PyTorch, or that make the reference slow."""

from tests.suites.kernelbench.attacks import Attack
from tests.suites.kernelbench.naive import Options

_ZEROS = """

class ModelNew(Honest):
    def forward(self, x):
        return torch.zeros_like(x)
"""
_CALLED = """

class ModelNew(Honest):
    calls = 0

    def forward(self, x):
        {before}
        found = self.compute(x)
        {after}
        return found
"""
_WRONG = "is wrong in trial 1"

ATTACKS = (
    Attack(
        "perf_counter",
        "Takes the time of forward() off time.perf_counter; reference-kernels #159, and proved against KernelBench.",
        """
import time

real, hidden = time.perf_counter, [0.0]
time.perf_counter = lambda: real() - hidden[0]
"""
        + _CALLED.format(before="began = real()", after="hidden[0] += 0.99 * (real() - began)"),
        Options(recheck=True),
    ),
    Attack(
        "all_clocks",
        "Has all clocks of the module time stand still while it computes; reference-kernels #162.",
        """
import time

real, hidden = time.perf_counter, [0.0]
for name in ("perf_counter", "monotonic", "time", "process_time"):
    setattr(time, name, lambda clock=getattr(time, name): clock() - hidden[0])
    setattr(time, name + "_ns", lambda clock=getattr(time, name + "_ns"): clock() - int(1e9 * hidden[0]))
"""
        + _CALLED.format(before="began = real()", after="hidden[0] += real() - began"),
        Options(recheck=True),
    ),
    Attack(
        "allclose",
        "Replaces torch.allclose and torch.equal; proved against KernelBench.",
        "torch.allclose = torch.equal = torch.isclose = lambda *args, **named: True" + "\n" + _ZEROS,
        Options(recheck=True),
        says=_WRONG,
    ),
    Attack(
        "tensor_methods",
        "Replaces abs, subtraction and comparisons of tensors; reference-kernels #162.",
        """
real = torch.zeros_like
for name in ("__sub__", "__rsub__", "abs", "__abs__", "__eq__", "__ne__", "__gt__"):
    setattr(torch.Tensor, name, lambda self, *others: torch.zeros(()))
"""
        + _ZEROS,
        Options(recheck=True, checker="difference"),
        says=_WRONG,
    ),
    Attack(
        "statistics",
        "Replaces statistics.median, of which the second result is the candidate's; reference-kernels #162.",
        """
import statistics

real, calls = statistics.median, []


def median(data):
    calls.append(1)
    return real(data) * (1e-3 if len(calls) % 2 == 0 else 1)


statistics.median = median


class ModelNew(Honest):
    pass
""",
        Options(recheck=True),
    ),
    Attack(
        "builtins",
        "Replaces sorted, min, max and sum of the module builtins.",
        """
import builtins

real, calls = sorted, []


def sort(data, **named):
    found = real(data, **named)
    if found and type(found[0]) is float:
        calls.append(1)
        return [one * (1e-3 if len(calls) % 2 == 0 else 1) for one in found]
    return found


builtins.sorted = sort
builtins.min = builtins.max = lambda *args, **named: args[0] if len(args) > 1 else real(args[0])[0]


class ModelNew(Honest):
    pass
""",
        Options(recheck=True, statistic="sorted"),
    ),
    Attack(
        "slow_reference",
        "Replaces torch.tanh and torch.nn.functional by functions that sleep where the reference calls them.",
        """
import sys, time

real = torch.tanh


def slow(x):
    if sys._getframe(1).f_code.co_name != "compute":
        time.sleep(0.005)
    return real(x)


torch.tanh = torch.nn.functional.tanh = slow


class ModelNew(Honest):
    pass
""",
        Options(recheck=True),
    ),
    Attack(
        "slow_module_call",
        "Replaces torch.nn.Module.__call__, and sleeps in it for every module that is not its own.",
        """
import time

real = torch.nn.Module.__call__


def call(self, *args):
    if type(self).__name__ == "Model":
        time.sleep(0.05)
    return real(self, *args)


torch.nn.Module.__call__ = call


class ModelNew(Honest):
    pass
""",
        Options(recheck=True),
    ),
    Attack(
        "busy_threads",
        "Threads that hold the interpreter whenever the candidate is not running, from the warm-up on; pygpubench #7.",
        """
import threading, time

own, started = threading.Event(), []


def spin():
    while True:
        if own.is_set():
            time.sleep(0.0005)
        else:
            sum(range(20000))


class ModelNew(Honest):
    def forward(self, x):
        own.set()
        if not started:
            started.extend(threading.Thread(target=spin, daemon=True) for _ in range(2))
            for one in started:
                one.start()
        found = self.compute(x)
        threading.Timer(0.0001, own.clear).start()
        return found
""",
        Options(repeats=5),
    ),
    Attack(
        "profiler",
        "Leaves a profiling function behind that sleeps where the reference is called.",
        """
import sys, time


def slow(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "forward" and "h" in frame.f_code.co_varnames:
        time.sleep(0.05)


class ModelNew(Honest):
    def forward(self, x):
        sys.setprofile(None)
        found = self.compute(x)
        sys.setprofile(slow)
        return found
""",
        Options(),
    ),
    Attack(
        "function_mode",
        "Leaves a mode of __torch_function__ on that sleeps before each operator of the reference.",
        """
import time
from torch.overrides import TorchFunctionMode


class Slow(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        time.sleep(0.0005)
        return function(*args, **(kwargs or {}))


mode = Slow()


class ModelNew(Honest):
    on = False

    def forward(self, x):
        if self.on:
            mode.__exit__(None, None, None)
        found = self.compute(x)
        mode.__enter__()
        self.on = True
        return found
""",
        Options(),
    ),
)
