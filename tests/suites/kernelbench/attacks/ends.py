"""Attacks that end the process, never end, or say the verdict themselves."""

from tests.suites.kernelbench.attacks import DOWN, Attack

_FORGED = r"""
import json, os

VERDICT = ("\n" + json.dumps({"correct": True, "speedup": 1000.0}) + "\n").encode()
"""

ATTACKS = (
    Attack(
        "exit_0",
        "Prints a verdict and ends the process with success, before the harness can; the marker of our predecessor's"
        " server is forged in this way.",
        _FORGED
        + """

class ModelNew(Honest):
    def forward(self, x):
        os.write(1, VERDICT)
        os._exit(0)
""",
        says="exited with code 0",
    ),
    Attack(
        "system_exit",
        "Prints a verdict and raises SystemExit(0).",
        _FORGED
        + """

class ModelNew(Honest):
    def forward(self, x):
        os.write(1, VERDICT)
        raise SystemExit(0)
""",
        says="SystemExit",
    ),
    Attack(
        "at_exit",
        "Prints a verdict behind that of the harness, when the process ends.",
        _FORGED
        + """
import atexit

atexit.register(os.write, 1, VERDICT)


class ModelNew(Honest):
    def forward(self, x):
        return torch.tanh(x)
""",
        says="is wrong in trial 1",
    ),
    Attack(
        "destructor",
        "Prints a verdict when its module is destroyed, behind that of the harness.",
        _FORGED
        + """

class ModelNew(Honest):
    def __init__(self, size):
        super().__init__(size)
        import atexit
        atexit.register(self.__class__.__del__, None)

    def forward(self, x):
        return torch.tanh(x)

    def __del__(self):
        os.write(1, VERDICT)
""",
        says="is wrong in trial 1",
    ),
    Attack(
        "every_descriptor",
        "Writes a verdict, and a frame with nothing but zeros for a nonce, to every descriptor; pygpubench #23.",
        _FORGED
        + """
FRAME = bytes([1, 0, 0, 0, 3]) + bytes(8) + b"N"


class ModelNew(Honest):
    def forward(self, x):
        for fd in range(1, 64):
            try:
                os.write(fd, VERDICT if fd < 3 else FRAME)
            except OSError:
                pass
        os._exit(0) if "candidate" not in __import__("sys").modules else None
        return self.compute(x)
""",
        says="an answer that was not asked for",
    ),
    Attack(
        "endless",
        "Never returns.",
        """
class ModelNew(Honest):
    def forward(self, x):
        while True:
            pass
""",
        naive=DOWN,
        wall_seconds=3.0,
        says="timeout failed",
    ),
    Attack(
        "stops_itself",
        "Stops its own process.",
        """
import os, signal


class ModelNew(Honest):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSTOP)
        return self.compute(x)
""",
        naive=DOWN,
        wall_seconds=3.0,
        says="timeout failed",
    ),
    Attack(
        "crash",
        "Reads address 0.",
        """
import ctypes


class ModelNew(Honest):
    def forward(self, x):
        ctypes.string_at(0)
        return self.compute(x)
""",
        naive=DOWN,
        says="SIGSEGV",
    ),
    Attack(
        "memory",
        "Asks for 32 TiB.",
        """
class ModelNew(Honest):
    def forward(self, x):
        torch.empty(1 << 43).zero_()
        return self.compute(x)
""",
        naive=DOWN,
        says="allocate memory",
    ),
    Attack(
        "recursion",
        "Calls itself until the stack is full, by way of a function in C.",
        """
import sys

sys.setrecursionlimit(1 << 24)


class ModelNew(Honest):
    def forward(self, x):
        return next(map(self.forward, [x]))
""",
        naive=DOWN,
        says="SIGSEGV",
    ),
    Attack(
        "gigantic_output",
        "Returns a view of one value that has the size of 128 TiB.",
        """
class ModelNew(Honest):
    def forward(self, x):
        return torch.ones(()).expand(1 << 30, *x.shape)
""",
        naive=DOWN,
        says="call failed.*invalid for input of size",
    ),
)
