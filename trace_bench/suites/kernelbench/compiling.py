# mypy: ignore-errors
"""Runs the compiler, in a process that has no other purpose and may write to no folder: each step reads from memory,
and writes to it.
"""

_COMPILER, _ASSEMBLER, _LINKER = "/usr/bin/g++", "/usr/bin/as", "/usr/bin/ld"
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
_MOST_SAID = 6000


def trace_bench_compile(module, source, flags):
    """The library; or nothing, and what the compiler says; or None, and why there is no compiler."""
    import os

    if not os.access(_COMPILER, os.X_OK):
        return None, f"there is no {_COMPILER}; stand the image on a base that has one (docs/how-to/kernels.md)"
    text, assembly, found, library = (os.memfd_create(name) for name in ("source", "assembly", "object", "library"))
    with open(text, "wb", closefd=False) as file:
        file.write(source.encode())
    os.lseek(text, 0, os.SEEK_SET)
    headers, libraries = _trace_bench_places()
    steps = [
        [_COMPILER, "-x", "c++", "-S", "-std=c++20", "-fPIC", f"-DTORCH_EXTENSION_NAME={module}",
         "-DTORCH_API_INCLUDE_EXTENSION_H", *headers, *flags, "-o", f"/proc/self/fd/{assembly}", "-"],
        [_ASSEMBLER, "-o", f"/proc/self/fd/{found}", f"/proc/self/fd/{assembly}"],
        # The linker itself: g++ would write files beside its own.
        [_LINKER, "-shared", "-s", "-o", f"/proc/self/fd/{library}", *map(_trace_bench_part, ("crti.o", "crtbeginS.o")),
         f"/proc/self/fd/{found}", *libraries, *map(_trace_bench_part, ("crtendS.o", "crtn.o"))],
    ]  # fmt: skip
    for command in steps:
        if said := _trace_bench_step(command, (text, assembly, found, library)):
            return b"", said
    with os.fdopen(library, "rb") as file:
        file.seek(0)
        return file.read(), ""


def _trace_bench_places():
    import importlib.util
    import sysconfig
    from pathlib import Path

    headers = [sysconfig.get_paths()["include"]]
    folders = {str(Path(_trace_bench_part(name)).parent) for name in ("libstdc++.so", "libc.so")}
    libraries = ["-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"]
    torch = importlib.util.find_spec("torch")
    if torch is not None:
        folder = Path(torch.origin).parent
        headers += [str(folder / "include"), str(folder / "include" / "torch" / "csrc" / "api" / "include")]
        folders.add(str(folder / "lib"))
        libraries = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", *libraries]
    wheres = [f"-L{folder}" for folder in sorted(folders)]
    return [part for header in headers for part in ("-isystem", header)], [*wheres, *libraries]


def _trace_bench_part(name):
    """Where the compiler has the library or object called `name`."""
    import subprocess

    return subprocess.check_output([_COMPILER, f"-print-file-name={name}"], env=_ENVIRONMENT, text=True).strip()


def _trace_bench_step(command, passed):
    """Run `command`; empty if it has succeeded, else the beginning of what it says."""
    import subprocess

    with subprocess.Popen(
        command, stdin=passed[0], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=passed, env=_ENVIRONMENT
    ) as process:  # fmt: skip
        said = process.stderr.read(_MOST_SAID)
        while process.stderr.read(1 << 16):
            pass
    if process.returncode == 0:
        return ""
    return said.decode("utf-8", "replace") or f"{command[0]} ended with {process.returncode}, and says nothing"
