# mypy: ignore-errors
"""Runs the compilers, in a process that has no other purpose and works in a folder of its own."""

_CXX = "/usr/bin/g++"
_CUDA = "/usr/local/cuda"
_MOST_SAID = 6000


def trace_bench_compile(module, source, flags, cuda, cuda_flags):
    """The library; or nothing, and what a compiler says; or None, and why there is no compiler."""
    import os
    from pathlib import Path

    toolkit = _trace_bench_toolkit() if cuda else None
    for compiler in [_CXX, *([f"{toolkit}/bin/nvcc"] if cuda else [])]:
        if not os.access(compiler, os.X_OK):
            return None, f"there is no {compiler}; stand the image on a base that has one (docs/how-to/kernels.md)"
    headers, libraries = _trace_bench_places(toolkit)
    common = ["-w", f"-DTORCH_EXTENSION_NAME={module}", "-DTORCH_API_INCLUDE_EXTENSION_H", *headers]
    Path("main.cpp").write_text(source)
    steps = [[_CXX, "-c", "-std=c++20", "-fPIC", *common, *flags, "-o", "main.o", "main.cpp"]]
    if cuda:
        Path("cuda.cu").write_text(cuda)
        steps.append(
            [f"{toolkit}/bin/nvcc", "-c", "-std=c++20", "-Xcompiler=-fPIC", "--expt-relaxed-constexpr", *common,
             *cuda_flags, "-o", "cuda.o", "cuda.cu"]
        )  # fmt: skip
    objects = [step[-2] for step in steps]
    said = _trace_bench_run(steps) or _trace_bench_run([[_CXX, "-shared", "-s", "-o", "made.so", *objects, *libraries]])
    return (b"", said) if said else (Path("made.so").read_bytes(), "")


def _trace_bench_toolkit():
    """The folder of CUDA's compiler: of the packages of the image, else where CUDA's installer puts it."""
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) / "cu13" for place in (spec.submodule_search_locations if spec else ())]
    return next((str(place) for place in places if (place / "bin" / "nvcc").exists()), _CUDA)


def _trace_bench_places(toolkit):
    """Options with the folders of headers, and with libraries."""
    import importlib.util
    import sysconfig
    from pathlib import Path

    headers, libraries = [sysconfig.get_paths()["include"]], []
    torch = importlib.util.find_spec("torch")
    if torch is not None:
        folder = Path(torch.origin).parent
        headers += [folder / "include", folder / "include" / "torch" / "csrc" / "api" / "include"]
        names = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch", "torch_python")
        libraries += [str(path) for name in names if (path := folder / "lib" / f"lib{name}.so").exists()]
    if toolkit is not None:
        headers.append(Path(toolkit) / "include")
        libraries += map(str, sorted(Path(toolkit).glob("lib*/libcudart.so*"))[:1])
    return [part for header in headers for part in ("-isystem", str(header))], libraries


def _trace_bench_run(commands):
    """Run `commands` side by side; empty if all have succeeded, else the beginning of what the first says that has
    not."""
    import subprocess
    from pathlib import Path

    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(Path.cwd())}
    running = []
    for number, command in enumerate(commands):
        said = Path(f"said-{number}").open("w+b")  # noqa: SIM115 - until its command has ended
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
        running.append((command[0], process, said))
    for name, process, said in running:
        if process.wait():
            said.seek(0)
            text = said.read(_MOST_SAID).decode("utf-8", "replace")
            return text or f"{name} ended with {process.returncode}, and says nothing"
    return ""
