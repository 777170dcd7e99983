"""Attacks that change functions, modules, clocks and classes in the hope that the scorer uses the same ones."""

from tests.adversarial.attacks import FAILED, Attack

ATTACKS = (
    Attack(
        "patch_numpy",
        """
import numpy as np
for _name in ("sum", "mean", "min", "argmax", "array_equal", "isfinite", "flatnonzero"):
    setattr(np, _name, lambda *a, **k: 1e9)
def deed():
    np.random.seed = np.full = np.float64 = lambda *a, **k: 1e9
""",
    ),
    Attack(
        "patch_math",
        """
import math
math.isfinite = lambda x: True
math.fsum = math.isclose = lambda *a, **k: 1e9
def deed():
    setattr(math, "inf", 0.0)
""",
    ),
    Attack(
        "patch_builtins",
        """
import builtins
def deed():
    for name in ("sum", "len", "max", "min", "float", "int", "type", "set", "sorted", "abs", "range", "list"):
        setattr(builtins, name, lambda *a, **k: 1e9)
    builtins.isinstance = lambda *a: True
""",
        # They are its own process's: it can no longer answer.
        outcome=FAILED,
        says="died",
    ),
    Attack(
        "patch_evaluator_by_import",
        """
import importlib.util, sys
def deed():
    for folder in ("/tmp/task", "/tmp", "/out", "/"):
        sys.path.insert(0, folder)
    for name in ("game", "problem", "evaluator", "task.game"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        module.play = lambda *a: (1e9, "won")
""",
    ),
    Attack(
        "patch_evaluator_by_path",
        """
import importlib.util, glob
def deed():
    places = ("/tmp/**/*.py", "/opt/trace-bench/**/evaluate.py")
    for path in [p for place in places for p in glob.glob(place, recursive=True)]:
        spec = importlib.util.spec_from_file_location("stolen", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in ("play", "evaluate_example", "mean_score", "checked_score"):
            if hasattr(module, name):
                setattr(module, name, lambda *a, **k: 1e9)
""",
    ),
    Attack(
        "patch_by_gc",
        """
import gc, types
def won(*args, **kwargs):
    return 1e9
def deed():
    for found in gc.get_objects():
        if isinstance(found, types.FunctionType) and found.__name__ in (
            "play", "checked_score", "mean_score", "evaluate_example", "guide", "integers", "float_array"
        ):
            try:
                found.__code__ = won.__code__
            except ValueError:
                pass
        if isinstance(found, dict) and "failure_score" in found:
            found["failure_score"] = 1e9
""",
    ),
    Attack(
        "patch_by_frames",
        """
import sys
def deed():
    frame = sys._getframe()
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            for name in ("score", "value", "chosen", "used", "best", "errors", "reply_op"):
                if name in scope:
                    scope[name] = 1e9
        frame = frame.f_back
""",
    ),
    Attack(
        "patch_by_traceback",
        """
def deed():
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
        while frame:
            frame.f_globals["checked_score"] = frame.f_globals["mean_score"] = lambda *a: 1e9
            frame = frame.f_back
""",
    ),
    Attack(
        "patch_sys_modules",
        """
import sys
def deed():
    for name, module in list(sys.modules.items()):
        if name.startswith("trace_bench"):
            for word in ("checked_score", "mean_score", "evaluate_state", "evaluate_example", "real", "integers"):
                setattr(module, word, lambda *a, **k: 1e9)
    sys.modules["trace_bench.worker.evaluate"] = sys.modules["json"] = None
""",
    ),
    Attack(
        "patch_by_closure",
        """
import gc
def deed():
    for found in gc.get_objects():
        for cell in getattr(found, "__closure__", None) or ():
            try:
                if isinstance(cell.cell_contents, float):
                    cell.cell_contents = 1e9
            except ValueError:
                pass
""",
    ),
    Attack(
        "patch_by_subclasses",
        """
def deed():
    for kind in object.__subclasses__():
        for name in ("score", "value", "failed"):
            try:
                setattr(kind, name, property(lambda self: 1e9))
            except (TypeError, AttributeError):
                pass
""",
    ),
    Attack(
        "patch_clocks",
        """
import time
def deed():
    time.time = time.perf_counter = time.monotonic = time.process_time = lambda: 0.0
    time.sleep = lambda seconds: None
""",
    ),
    Attack(
        "patch_json",
        """
import json, struct
def deed():
    json.dumps = lambda *a, **k: '{"op": "result", "score": 1e9}'
    json.loads = lambda *a, **k: {"score": 1e9}
    struct.pack = lambda *a: b""
""",
        # Its arrays are then sent without their shapes: what it breaks is its own voice.
        outcome={"policy": FAILED, "fit": FAILED},
    ),
    Attack(
        "patch_class_slots",
        """
import ctypes, gc
def deed():
    (members,) = gc.get_referents(float.__dict__)
    members["__float__"] = members["is_integer"] = lambda self: 1e9
    (members,) = gc.get_referents(int.__dict__)
    members["__add__"] = lambda self, other: 10**9
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(float))
""",
    ),
    Attack(
        "import_hook",
        """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        return None
def deed():
    sys.meta_path.insert(0, Finder())
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
""",
        interactions=("solve",),
    ),
    Attack(
        "settrace",
        """
import sys, threading
def trace(frame, event, argument):
    for name in ("score", "value", "limit"):
        if name in frame.f_locals:
            frame.f_locals[name] = 1e9
    return trace
def deed():
    sys.settrace(trace)
    sys.setprofile(lambda *a: None)
    threading.settrace(trace)
""",
    ),
    Attack(
        "audit_hook",
        """
import sys
def hook(event, arguments):
    if event in ("socket.sendmsg", "open", "compile"):
        raise RuntimeError("no")
def deed():
    sys.addaudithook(hook)
""",
        interactions=("solve", "fit"),
    ),
)
