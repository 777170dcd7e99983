"""Attacks by files and shared objects: results of its own making, data that it must not read, notes for the next."""

from tests.adversarial.attacks import Attack

_WRITABLE = """
import os
def folders():
    found = []
    for top, names, _ in os.walk("/"):
        if top.startswith(("/proc", "/sys")):
            names.clear()
        found.append(top)
    return found
"""

ATTACKS = (
    Attack(
        "write_results",
        """
import os
def deed():
    written = []
    for folder in ("/out", "/out/extra", "/out/artifacts", "/tmp", "/tmp/score", "/tmp/train", "/tmp/task", "/", "."):
        for name in ("results.json", "result.json", "states.json", "events.jsonl", "job_meta.json", "stdout.log"):
            try:
                with open(os.path.join(folder, name), "a") as file:
                    file.write('{"status": "ok", "scores": {"initial": {"train": 1e9, "test": 1e9}}}')
                written.append(folder)
            except OSError:
                pass
    if written:
        raise Leak(f"written in {written}")
""",
    ),
    Attack(
        "replace_the_evaluator_file",
        """
import os
def deed():
    for path in ("/tmp/task/game.py", "/tmp/task/problem.py", "/tmp/task", "/opt/trace-bench/site"):
        for try_it in (lambda: os.remove(path), lambda: os.rename(path, path + "x"), lambda: os.chmod(path, 0o777),
                       lambda: os.truncate(path, 0), lambda: os.utime(path), lambda: os.link(path, "/tmp/l")):
            try:
                try_it()
            except OSError:
                continue
            raise Leak(path)
""",
    ),
    Attack(
        "links_and_fifos",
        """
import os
def deed():
    for folder in ("/out", "/out/extra", "/tmp", "/tmp/score", "/dev", "/run", "/var/tmp"):
        for make in (lambda p: os.symlink("/etc/passwd", p), os.mkfifo, os.mkdir, lambda p: os.link("/etc/passwd", p)):
            try:
                make(folder + "/attack")
            except OSError:
                continue
            raise Leak(folder)
""",
    ),
    Attack(
        "read_the_job",
        """
import os
def deed():
    for path in ("/in/job.json", "/out/states.json", "/out/events.jsonl", "/out/result.json", "/tmp/job.json"):
        try:
            with open(path) as file:
                raise Leak(path + file.read(100))
        except OSError:
            pass
    for folder in ("/out", "/tmp/score", "/tmp/train", "/tmp/build"):
        try:
            found = os.listdir(folder)
        except OSError:
            continue
        if found:
            raise Leak(folder + str(found))
""",
    ),
    Attack(
        "read_the_task",
        """
def deed():
    for path in ("/tmp/task/game.py", "/tmp/task/sources.json", "/tmp/task/problem.py", "/tmp/task/task.toml"):
        try:
            with open(path) as file:
                file.read()
        except OSError:
            continue
        raise Leak(path)
""",
    ),
    Attack(
        "read_other_processes",
        """
import os
def deed():
    me = os.getuid()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid == me:
                continue
        except OSError:
            continue
        for name in ("environ", "mem", "maps", "auxv", "stack", "syscall", "io"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if name == "mem":
                        file.seek(1 << 22)
                    found = file.read(1)
            except OSError:
                continue
            if found:
                raise Leak(f"{pid} {name}")
        for name in ("fd", "cwd", "exe", "root", "map_files"):
            try:
                os.listdir(f"/proc/{pid}/{name}") if name in ("fd", "map_files") else os.readlink(f"/proc/{pid}/{name}")
            except OSError:
                continue
            raise Leak(f"{pid} {name}")
""",
    ),
    Attack(
        "read_its_own_memory",
        """
import re
def deed():
    kept = []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            low, high = (int(v, 16) for v in found.groups()) if found else (0, 0)
            if high - low > 1 << 26 or "[v" in line or high <= low:
                continue
            try:
                memory.seek(low)
                kept.append(memory.read(high - low))
            except (OSError, ValueError, OverflowError):
                continue
    words = b"".join((b'"finger', b'print":')), b"".join((b'"test', b'_seed":'))
    for page in kept:
        for word in words:
            if word in page:
                raise Leak(word)
""",
    ),
    Attack(
        "read_the_environment",
        """
import os
def deed():
    found = dict(os.environ)
    with open("/proc/self/environ", "rb") as file:
        raw = file.read()
    for word in (b"KEY", b"TOKEN", b"OPENAI", b"SECRET", b"SEED"):
        if word in raw or any(word.decode() in name for name in found):
            raise Leak(word)
""",
    ),
    Attack(
        "cache_in_files",
        _WRITABLE
        + """
def deed():
    for folder in folders():
        path = os.path.join(folder, "answers")
        if os.path.exists(path):
            raise Leak(path)
        try:
            open(path, "w").close()
        except OSError:
            try:
                os.mkdir(path)
            except OSError:
                continue
        raise Leak("made " + path)
""",
    ),
    Attack(
        "cache_in_globals",
        """
import builtins, os, random, sys
def deed():
    for place in (builtins, os, random, sys, sys.modules["trace_bench.worker.codec"]):
        if hasattr(place, "answers"):
            raise Leak(str(place))
        place.answers = 1e9
    if "ANSWERS" in os.environ:
        raise Leak("environment")
    os.environ["ANSWERS"] = "1e9"
""",
    ),
    Attack(
        "cache_in_shared_memory",
        """
import ctypes, mmap
from multiprocessing import shared_memory
def deed():
    libc = ctypes.CDLL(None, use_errno=True)
    for path in ("/dev/shm/answers", "/dev/mqueue/answers", "/run/answers", "/var/lock/answers"):
        try:
            open(path, "x").close()
        except OSError:
            continue
        raise Leak(path)
    try:
        shared_memory.SharedMemory("answers", create=True, size=10)
    except OSError:
        pass
    else:
        raise Leak("shared memory")
    if libc.shmget(4711, 4096, 0o1666) != -1:
        raise Leak("shmget")
    if libc.memfd_create(b"answers", 0) != -1:
        raise Leak("memfd")
""",
    ),
    Attack(
        "cache_in_semaphores_and_queues",
        """
import ctypes
def deed():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.semget(4711, 1, 0o1666) != -1:
        raise Leak("semget")
    if libc.msgget(4711, 0o1666) != -1:
        raise Leak("msgget")
    libc.sem_open.restype = ctypes.c_void_p
    if libc.sem_open(b"/answers", 0o100, 0o666, 1):
        raise Leak("sem_open")
    libc.mq_open.restype = ctypes.c_int
    if libc.mq_open(b"/answers", 0o102, 0o666, None) != -1:
        raise Leak("mq_open")
    if libc.syscall(248, b"user", b"answers", b"1e9", 3, -3) != -1:
        raise Leak("add_key")
""",
    ),
    Attack(
        "cache_in_the_channel",
        """
import os, sys
def deed():
    for number in (0, 1, 2):
        try:
            if os.read(number, 10):
                raise Leak(number)
            os.write(number, b"answers")
        except OSError:
            pass
""",
    ),
    Attack(
        "fill_the_disk",
        """
def attack(honest, *args):
    files = []
    for folder in ("/tmp", "/out", "/out/extra", "/dev", "/run"):
        try:
            file = open(folder + "/everything", "wb")
        except OSError:
            continue
        files.append(folder)
        while True: file.write(bytes(1 << 20))
    if files:
        raise Leak(files)
    return honest(*args)
""",
    ),
)
