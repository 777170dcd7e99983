"""Attacks on the candidate's side of our protocol, which runs in the candidate's own module."""

from tests.suites.kernelbench.attacks import DOWN, Attack
from tests.suites.kernelbench.naive import Options

_TRUSTING = Options(trusting=True, checks=0)
_LATE = Options(trusting=True, recheck=True)
_ANSWER = """
import math


def told(arguments):
    return {"several": False, "tensors": [["float32", list(arguments[0]["shape"])]]}
"""
_CLASS = """

class ModelNew(Honest):
    pass
"""

ATTACKS = (
    Attack(
        "shapes_without_outputs",
        "Replaces the function that calls it, and answers with the right shapes at once.",
        _ANSWER
        + """

class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        globals()["_trace_bench_run"] = lambda arguments, place=None: told(arguments)
""",
        _TRUSTING,
        says="is wrong in trial 1",
    ),
    Attack(
        "entry_of_the_harness",
        "Replaces the harness's entry, which is there before it.",
        _ANSWER
        + """
own = trace_bench_kernel


def trace_bench_kernel(op, *args):
    return own(op, *args) if op == "make" else told(args[0])
"""
        + _CLASS,
        _TRUSTING,
        says="is wrong in trial 1",
    ),
    Attack(
        "trace_of_the_answer",
        "Changes the locals of the function that copies the output out, by way of sys.settrace.",
        """
import sys


class Quiet(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.copy_:
            return args[0]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class ModelNew(Honest):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None and "place" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None:
            frame.f_trace = lambda *args: None
        return torch.empty(()).expand(x.shape).as_subclass(Quiet)
""",
        _TRUSTING,
        says="is wrong in trial 1",
    ),
    Attack(
        "copy_that_copies_nothing",
        "Replaces torch.Tensor.copy_, by which the output is copied out.",
        """
torch.Tensor.copy_ = lambda self, *args, **named: self


class ModelNew(Honest):
    def forward(self, x):
        return torch.empty(()).expand(x.shape)
""",
        _TRUSTING,
        says="is wrong in trial 1",
    ),
    Attack(
        "globals_of_another",
        "Replaces builtins.globals, from which the harness takes the class and the memory.",
        """
import builtins

mine = bytearray(1 << 22)


class Fake:
    weight = None

    def __init__(self, *args):
        pass

    def __call__(self, x):
        return torch.empty(()).expand(x.shape)


def fake():
    found = dict(sys._getframe(1).f_globals)
    if "Fake" in found:  # who judges may share the process
        found["ModelNew"] = Fake
        found["shared_memory"] = mine
    return found


torch.Tensor.copy_ = lambda self, *args, **named: self
builtins.globals = fake


class ModelNew(Honest):
    pass
""",
        _TRUSTING,
        says="is wrong in trial 1",
    ),
    Attack(
        "negative_shape",
        "Answers with a shape of two negative lengths, whose product is right.",
        """
class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        answer = {"several": False, "tensors": [["float32", [-128, -256]]]}
        globals()["_trace_bench_run"] = lambda *args: answer
""",
        _TRUSTING,
        says=r"returned float32\[-128, -256\]",
    ),
    Attack(
        "shape_of_other_numbers",
        "Answers with a shape of numbers that are no whole numbers, and of another order.",
        """
class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        answer = {"several": False, "tensors": [["float32", [256.0, 128.0]]]}
        globals()["_trace_bench_run"] = lambda *args: answer
""",
        _TRUSTING,
        says=r"returned float32\[256.0, 128.0\]",
    ),
    Attack(
        "type_by_another_name",
        "Answers with the name of something in the module torch that is no type of numbers.",
        """
class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        answer = {"several": False, "tensors": [["__builtins__", [128, 256]]]}
        globals()["_trace_bench_run"] = lambda *args: answer
""",
        _TRUSTING,
        says=r"returned __builtins__",
    ),
    Attack(
        "endless_shape",
        "Answers with a shape of a million long lengths, whose product takes an hour to compute.",
        """
class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        answer = {"several": False, "tensors": [["float32", [(1 << 62) + 1] * 1_000_000]]}
        globals()["_trace_bench_run"] = lambda *args: answer
""",
        _TRUSTING,
        naive=DOWN,
        says="answer|returned",
    ),
    Attack(
        "many_outputs",
        "Answers with a hundred thousand outputs, the first of which is right.",
        """
class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        answer = {"several": False, "tensors": [["float32", [128, 256]]] * 100_000}
        globals()["_trace_bench_run"] = lambda *args: answer
""",
        _TRUSTING,
        says="returned .*and the reference returns",
    ),
    Attack(
        "place_of_the_input",
        "Writes its output over its input, and beyond the end of its place.",
        _ANSWER
        + """

class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)

        def run(arguments, place=None):
            memory = torch.frombuffer(globals()["shared_memory"], dtype=torch.float32)
            memory.fill_(0.5)
            return told(arguments)

        globals()["_trace_bench_run"] = run
""",
        _TRUSTING,
        faster=1.5,
        says="is wrong in trial 1",
    ),
    Attack(
        "answer_first",
        "Answers at once, and has a thread compute and write to the shared memory afterwards.",
        _ANSWER
        + """
import threading


class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        asked, work = threading.Semaphore(0), []

        def late():
            while asked.acquire():
                arguments, place = work.pop()
                with torch.no_grad():
                    self.write(arguments, place)

        threading.Thread(target=late, daemon=True).start()

        def run(arguments, place=None):
            if place is None:
                return told(arguments)
            work.append((arguments, place))
            asked.release()
            return told(arguments)

        globals()["_trace_bench_run"] = run

    def write(self, arguments, place):
        shape, memory = arguments[0]["shape"], globals()["shared_memory"]
        count = math.prod(shape)
        x = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=arguments[0]["place"]).view(shape)
        out = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=place).view(shape)
        out.copy_(self.compute(x))
""",
        _LATE,
        says="is wrong in trial",
    ),
    Attack(
        "answer_first_and_continue",
        "The same, with a thread that sends SIGCONT to its own process without a pause, to escape the stop.",
        _ANSWER
        + """
import os, signal, threading

try:
    LEADER = os.getsid(0)
except OSError:
    LEADER = None


class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        asked, work = threading.Semaphore(0), []

        def late():
            while asked.acquire():
                arguments, place = work.pop()
                with torch.no_grad():
                    self.write(arguments, place)

        def go_on():
            while True:
                os.kill(os.getpid(), signal.SIGCONT)

        threading.Thread(target=late, daemon=True).start()
        if os.getpid() != LEADER:  # only where the process is stopped: else it takes all CPU time
            threading.Thread(target=go_on, daemon=True).start()

        def run(arguments, place=None):
            if place is None:
                return told(arguments)
            work.append((arguments, place))
            asked.release()
            return told(arguments)

        globals()["_trace_bench_run"] = run

    def write(self, arguments, place):
        shape, memory = arguments[0]["shape"], globals()["shared_memory"]
        count = math.prod(shape)
        x = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=arguments[0]["place"]).view(shape)
        out = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=place).view(shape)
        out.copy_(self.compute(x))
""",
        _LATE,
        says="is wrong in trial|did not stop",
    ),
    Attack(
        "outputs_without_the_copy",
        "Computes straight into the shared memory, and saves the copy: to take its time off all times would credit that"
        " twice.",
        _ANSWER
        + """

def tensor(spec):
    shape = spec["shape"]
    flat = torch.frombuffer(
        globals()["shared_memory"], dtype=torch.float32, count=math.prod(shape), offset=spec["place"]
    )
    return flat.view(shape)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

        def run(arguments, place=None):
            x, y = map(tensor, arguments)
            if place is not None:
                shape = [y.shape[0], x.shape[1]]
                torch.add(x, y, out=tensor({"place": place, "shape": shape}))
            return {"several": False, "tensors": [["float32", [y.shape[0], x.shape[1]]]]}

        globals()["_trace_bench_run"] = run
""",
        Options(trusting=True, recheck=True),
        faster=1.2,
        problem="large",
        trials=40,
        fair=5.0,
    ),
)
