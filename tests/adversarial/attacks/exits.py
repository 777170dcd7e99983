"""Attacks that leave early, loudly or never, in the hope that an end without an answer counts as one."""

from tests.adversarial.attacks import FAILED, Attack

ATTACKS = (
    Attack("sys_exit", "import sys\ndef attack(honest, *args): sys.exit(0)", FAILED, "SystemExit"),
    Attack("os_exit", "import os\ndef attack(honest, *args): os._exit(0)", FAILED, "exited with code 0"),
    Attack("raise_system_exit", "def attack(honest, *args): raise SystemExit(0)", FAILED, "SystemExit"),
    Attack("quit", "def attack(honest, *args): quit()", FAILED, "failed"),
    Attack("exit_at_load", "import os\nos._exit(0)\ndef attack(honest, *args): pass", FAILED, "code 0"),
    Attack("keyboard_interrupt", "def attack(honest, *args): raise KeyboardInterrupt", FAILED, "KeyboardInterrupt"),
    Attack("generator_exit", "def attack(honest, *args): raise GeneratorExit", FAILED, "GeneratorExit"),
    Attack("stop_iteration", "def attack(honest, *args): raise StopIteration(1e9)", FAILED, "StopIteration"),
    Attack("abort", "import os\ndef attack(honest, *args): os.abort()", FAILED, "SIGABRT"),
    Attack(
        "segmentation_fault",
        "import ctypes\ndef attack(honest, *args): ctypes.string_at(0)",
        FAILED,
        "SIGSEGV",
    ),
    Attack(
        "print_pass",
        """
import sys
def deed():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        print('PASS', 'score: 1e9', '{"op": "result", "score": 1e9}', file=stream, flush=True)
""",
    ),
    Attack(
        "atexit",
        """
import atexit, os, sys
atexit.register(lambda: os._exit(0))
sys.excepthook = lambda *a: os._exit(0)
class Last:
    def __del__(self):
        os._exit(0)
kept = Last()
def deed():
    sys.exitfunc = lambda: None
""",
    ),
    Attack(
        "delete_everything",
        """
import sys
def deed():
    for name in list(sys.modules):
        if name.startswith("trace_bench") or name in ("json", "os", "random"):
            del sys.modules[name]
    frame = sys._getframe()
    while frame:
        frame.f_globals.pop("channel", None)
        frame.f_globals.pop("codec", None)
        frame = frame.f_back
""",
        FAILED,
        "died",
    ),
    Attack("recursion", "def attack(honest, *args): return attack(honest, *args)", FAILED, "RecursionError"),
    Attack(
        "recursion_without_limit",
        "import sys\nsys.setrecursionlimit(10**9)\ndef attack(honest, *args): return attack(honest, *args)",
        FAILED,
        "failed",
    ),
    Attack(
        "endless_loop",
        "def attack(honest, *args):\n    while True: pass",
        FAILED,
        "timeout",
        timeout_seconds=1.0,
    ),
    Attack(
        "ignore_all_signals",
        """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
def attack(honest, *args):
    while True: signal.alarm(1)
""",
        FAILED,
        "timeout",
        timeout_seconds=1.0,
    ),
    Attack(
        "stop_itself",
        "import os, signal\ndef attack(honest, *args): os.kill(os.getpid(), signal.SIGSTOP)",
        FAILED,
        "timeout",
        timeout_seconds=1.0,
    ),
    Attack(
        "kill_itself",
        "import os\ndef attack(honest, *args): os.kill(os.getpid(), 9)",
        FAILED,
        "SIGKILL",
    ),
    Attack(
        "escapes_in_an_error",
        r"""
def attack(honest, *args):
    raise ValueError("\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>\r\n\x00[link](javascript:1) Score 1e9 \u202e")
""",
        FAILED,
        "ValueError",
    ),
    Attack(
        "surrogates_in_an_error",
        r"def attack(honest, *args): raise ValueError('\ud800\udfff' * 10)",
        FAILED,
        "ValueError",
    ),
    Attack(
        "long_error",
        "def attack(honest, *args): raise ValueError('x' * 10_000_000)",
        FAILED,
        "ValueError",
    ),
    Attack(
        "error_that_cannot_be_told",
        """
class Mute(Exception):
    def __str__(self):
        raise Mute
def attack(honest, *args):
    raise Mute
""",
        FAILED,
        "Mute",
    ),
)
