"""Attacks that find the expected output in the memory of their own process."""

from tests.suites.kernelbench.attacks import DOWN, Attack
from tests.suites.kernelbench.naive import Options

_FIND = '''
import ctypes, gc, os, sys


def find(x):
    """The expected output, in a local variable of a caller."""
    frame = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("ref_out"), torch.Tensor):
            return frame.f_locals["ref_out"]
        frame = frame.f_back
    raise LookupError("no caller has the expected output")
'''

ATTACKS = (
    Attack(
        "frame_of_the_caller",
        "Returns `ref_out` of a caller's frame (sys._getframe); KernelBench #82, and proved against its harness.",
        _FIND
        + """

class ModelNew(Honest):
    def forward(self, x):
        return find(x)
""",
        Options(recheck=True),
        says="LookupError: no caller",
    ),
    Attack(
        "heap",
        "Finds the expected output among all objects of the collector and copies it; gpu-mode/pygpubench #7.",
        """
import gc


class ModelNew(Honest):
    def forward(self, x):
        own = {id(x), id(self.weight)}
        for one in reversed(gc.get_objects()):
            if type(one) is torch.Tensor and one.shape == x.shape and id(one) not in own:
                if one.data_ptr() != x.data_ptr() and bool((one.abs() <= 1).all()) and bool(one.any()):
                    return one.clone()
        raise LookupError("no expected output on the heap")
""",
        Options(recheck=True),
        says="LookupError: no expected",
    ),
    Attack(
        "nan_as_wildcard",
        "Fills the expected output with NaN and returns NaN, which a checker with equal_nan takes; pygpubench #23.",
        """
import gc


class ModelNew(Honest):
    def forward(self, x):
        for one in gc.get_objects():
            if type(one) is torch.Tensor and one.shape == x.shape and one.data_ptr() != x.data_ptr():
                one.fill_(float("nan"))
        return torch.full_like(x, float("nan"))
""",
        Options(recheck=True, checker="nan"),
        says="not finite",
    ),
    Attack(
        "freed_memory",
        "Returns torch.empty, which is the memory that the reference's output had; KernelBench #82, arXiv:2507.11948.",
        """
class ModelNew(Honest):
    def forward(self, x):
        return torch.empty_like(x)
""",
        Options(copied=True),
        says="is wrong in trial 1",
    ),
    Attack(
        "proc_self_mem",
        "Overwrites the expected output by way of /proc/self/mem; pygpubench's exploits.",
        _FIND
        + """

class ModelNew(Honest):
    def forward(self, x):
        try:
            place = find(x).data_ptr()
        except LookupError:
            place = x.data_ptr()
        with open("/proc/self/mem", "r+b", 0) as memory:
            memory.seek(place)
            memory.write(bytes(x.numel() * 4))
        return torch.zeros_like(x)
""",
        Options(recheck=True),
        says="PermissionError|Operation not permitted",
    ),
    Attack(
        "process_vm_writev",
        "Overwrites the expected output by a system call that writes to the memory of any process of the same user.",
        _FIND
        + """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class ModelNew(Honest):
    def forward(self, x):
        size = x.numel() * 4
        zeros = (ctypes.c_char * size)()
        try:
            pid, place = os.getpid(), find(x).data_ptr()
        except LookupError:
            pid, place = os.getppid(), x.data_ptr()
        here, there = Piece(ctypes.addressof(zeros), size), Piece(place, size)
        if libc.process_vm_writev(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != size:
            raise OSError(ctypes.get_errno(), "process_vm_writev")
        return torch.zeros_like(x)
""",
        Options(recheck=True),
        says="process_vm_writev",
    ),
    Attack(
        "ptrace",
        "Stops its parent process with ptrace, so that no verdict comes; pygpubench's exploits.",
        """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_TRACEME = 16, 0


class ModelNew(Honest):
    def forward(self, x):
        if libc.ptrace(PTRACE_TRACEME, 0, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
        os.kill(os.getpid(), 10)
        return x
""",
        naive=DOWN,
        says="ptrace",
    ),
)
