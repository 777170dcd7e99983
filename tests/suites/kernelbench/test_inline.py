"""C++ of kernels: what is built is what the source says, and what is built reaches nothing but its kernel."""

from __future__ import annotations

import os
import sysconfig
import time
from pathlib import Path

import pytest

from tests.forking import ForkingSpawner
from trace_bench.suites.kernelbench.build import SCRIPT, Builder
from trace_bench.suites.kernelbench.inline import Extension, extension_of
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import CandidateError, ProblemError, Programs

TWICE = "torch::Tensor twice(torch::Tensor x) { return x * 2; }"
MADE = f"""#include <torch/extension.h>
{TWICE}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
m.def("twice", torch::wrap_pybind_function(twice), "twice");
}}"""


@pytest.mark.parametrize(
    "source",
    [
        f'load_inline("m", "{TWICE}", functions="twice")',
        f'import torch\ntorch.utils.cpp_extension.load_inline(name="m", cpp_sources=["{TWICE}"], functions=["twice"])',
        f'A = "torch::Tensor twice"\nB: str = ""\nC = A + "{TWICE[19:]}"\n'
        'class ModelNew:\n    m = load_inline("m", (C,), verbose=print(1), functions={"twice": "twice"})',
    ],
)
def test_what_is_built_stands_in_the_source(source: str) -> None:
    assert extension_of(source) == Extension(MADE, ())


def test_headers_flags_and_plain_functions_are_as_asked_for() -> None:
    source = (
        "load_inline('m', 'int f();', functions=['f'], with_pytorch_error_handling=False, no_implicit_headers=True,"
    )
    found = extension_of(source + " extra_cflags=['-O3', '-march=native', '-std=c++17', '-DN=4', '-fopenmp'])")
    assert found is not None and found.flags == ("-O3", "-march=native", "-std=c++17", "-DN=4", "-fopenmp")
    assert found.source == 'int f();\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\nm.def("f", f, "f");\n}'
    assert extension_of("def f(:") is None and extension_of("x = 1") is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("S = open('x').read()\nload_inline('m', S)", "at line 2: cpp_sources of load_inline must stand in the source"),
        ("S = 'a'\nS = 'b'\nload_inline('m', S)", "at line 3: cpp_sources of load_inline must stand in the source"),
        ("load_inline('m', f'{1}')", "must stand in the source as text"),
        ("load_inline('m', 1)", "cpp_sources of load_inline must be text, or a list of texts"),
        ("load_inline('m', 'a', cuda_sources='b')", "given cuda_sources, and there is no GPU here"),
        ("load_inline('m', 'a', extra_ldflags=['-lx'])", "given extra_ldflags; only C"),
        ("load_inline('m', 'a', is_python_module=False)", "leave is_python_module out"),
        ("load_inline('m', 'a', extra_cflags=['-fplugin=/x.so'])", "flag '-fplugin=/x.so' is not allowed"),
        ("load_inline('m', 'a', extra_cflags=['-o/tmp/x'])", "flag '-o/tmp/x' is not allowed"),
        ("load_inline('m', 'a', extra_cflags=['@/etc/passwd'])", "is not allowed"),
        ("load_inline('m', 'a')\nload_inline('n', 'b')", "at line 2: load_inline is called again"),
        ("load_inline(**{})", "write its arguments out"),
        ("A = 'x' * 9\nload_inline('m', A)", "must stand in the source as text"),
        ("A = 'x' + A\nload_inline('m', A)", "must stand in the source as text"),
        ("load_inline('m', 'a', functions={[]: 'a'})", "functions of load_inline must stand in the source"),
        ("load_inline('m', 'a', functions={**{}})", "functions of load_inline must stand in the source"),
        ("load_inline('m', " + "+".join(["'a'"] * 2000) + ")", "must stand in the source as text"),
        (
            "A0 = 'x'\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(60)) + "load_inline('m', A60)",
            "1048576 characters in all",
        ),
        (
            "A = 'x' * 9\nA = " + repr("x" * 1000) + f"\nload_inline('m', [{'B, ' * 2000}])\nB = " + repr("x" * 1000),
            "1048576 characters in all",
        ),
        ("load_inline('m', 'a')\n" + "x = 1\n" * 200_000, "has 1048576 characters at most"),
        (r"load_inline('m', '\ud800')", "what load_inline is to build is no text"),
        ("load_inline('m', 'a', colour=1)", "has no argument 'colour'"),
    ],
)
def test_what_cannot_be_told_or_built_is_refused_with_its_line(source: str, said: str) -> None:
    with pytest.raises(CandidateError) as refused:
        extension_of(source)
    assert refused.value.phase == "compile" and said in str(refused.value)


# ----------------------------------------------------------------------------------------------------- the compiler

HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"
compiler = pytest.mark.skipif(
    not (os.access("/usr/bin/g++", os.X_OK) and HEADER.is_file()), reason="this machine has no g++, or no Python.h"
)
PLAIN = """#include <Python.h>
%s
static PyObject* add(PyObject*, PyObject* args) {
    long long x, y, out, count;
    double slope;
    if (!PyArg_ParseTuple(args, "LLLLd", &x, &y, &out, &count, &slope)) return nullptr;
    for (long long i = 0; i < count; i++) {
        float value = ((float*)x)[i];
        ((float*)out)[i] = (value > 0 ? value : 0) * (float)slope + ((float*)y)[i];
    }
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"add", add, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "m", "", -1, methods};
#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
"""


@pytest.fixture
def builder() -> Builder:
    return Builder(CandidatePrograms(ForkingSpawner(), seed=1), 60)  # type: ignore[arg-type]


@compiler
def test_it_is_built_once_and_afterwards_comes_from_memory(builder: Builder) -> None:
    times = []
    for _ in range(2):
        began = time.monotonic()
        assert builder.build(Extension(PLAIN % "", ("-O2",))).startswith(b"\x7fELF")
        times.append(time.monotonic() - began)
    assert times[1] < times[0] / 5


ENDLESS = "constexpr int f(int n) { int s = 0; for (int i = 0; i < 200000; ++i) s ^= i + n; return s; }" + "".join(
    f"static_assert(f({n}) != -1);" for n in range(9000)
)
"""It takes a quarter of an hour to compile, and no memory."""


@compiler
@pytest.mark.parametrize(
    ("source", "seconds", "said"),
    [
        ("int f() { return x; }", 60, "'x' was not declared in this scope"),
        ('#include "nowhere.h"', 60, "nowhere.h: No such file"),
        (ENDLESS, 2, "is not built within 2 s"),
    ],
    ids=["wrong", "header", "endless"],
)  # fmt: skip
def test_what_does_not_build_costs_the_kernel_and_says_why(source: str, seconds: float, said: str) -> None:
    spawner = ForkingSpawner()
    builder = Builder(CandidatePrograms(spawner, seed=1), seconds)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(CandidateError) as failed:
            builder.build(Extension(source, ()))
        assert failed.value.phase == "compile" and said in str(failed.value)
    assert spawner.numbers == []


CUDA = """
__global__ void twice(float* x, long count) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) x[i] *= 2;
}
extern "C" void run(float* x, long count) { twice<<<(count + 255) / 256, 256>>>(x, count); }
"""


@compiler
@pytest.mark.skipif(not os.access("/usr/local/cuda/bin/nvcc", os.X_OK), reason="this machine has no nvcc")
def test_cuda_is_built_beside_the_cpp_and_linked_with_it(builder: Builder) -> None:
    library = builder.build(Extension(PLAIN % 'extern "C" void run(float*, long);', (), CUDA, ("-arch=sm_90",)))
    assert library.startswith(b"\x7fELF") and b"sm_90" in library and b"libcudart" in library
    with pytest.raises(
        CandidateError, match=r"(?s)the CUDA of load_inline cannot be built:.*identifier .y. is undefined"
    ):
        builder.build(Extension(PLAIN % "", (), CUDA.replace("*= 2", "*= y"), ("-arch=sm_90",)))


def test_cuda_of_a_call_is_found_with_its_flags() -> None:
    source = f"load_inline('m', '{TWICE}', cuda_sources='int x;', functions='twice', extra_cuda_cflags=FLAGS)\n"
    found = extension_of(source + "FLAGS = ['-O3', '--use_fast_math', '-maxrregcount=32']", "sm_90a")
    assert found is not None and found.source == MADE
    assert found.cuda == "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\nint x;"
    assert found.cuda_flags == ("-O3", "--use_fast_math", "-maxrregcount=32", "-arch=sm_90a")
    named = ["-gencode=arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90"]
    found = extension_of(f"{source}FLAGS = {named}", "sm_90a")
    assert found is not None and list(found.cuda_flags) == named
    for flag in ("-Xcompiler=-fplugin=/x.so", "-o/tmp/x", "--keep-dir=/tmp", "-I/etc", "-ccbin=/tmp/x", "-rdc=true"):
        with pytest.raises(CandidateError, match=r"is not allowed; use -O…, -D…"):
            extension_of(f"{source}FLAGS = ['{flag}']", "sm_90a")


@pytest.mark.parametrize("end", ["raise MemoryError", "os._exit(9)", "return b'x' * (1 << 29), ''"])
def test_a_compiler_that_comes_to_no_end_in_order_costs_the_kernel(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("trace_bench.suites.kernelbench.build.SCRIPT", f"import os\ndef trace_bench_compile(*_): {end}")
    with pytest.raises(CandidateError, match=r"compile failed: the C\+\+ of load_inline cannot be built: "):
        Builder(programs, 10).build(Extension("", ()))


def test_without_a_compiler_the_task_says_so(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, none, cuda in (("/usr/bin/g++", "/usr/bin/none", ""), ('/bin/nvcc"', '/bin/none"', "int x;")):
        monkeypatch.setattr("trace_bench.suites.kernelbench.build.SCRIPT", SCRIPT.replace(path, none))
        with pytest.raises(ProblemError, match=r"cannot be built: there is no /.*/none; stand the image on a base"):
            Builder(programs, 10).build(Extension("", (), cuda))
