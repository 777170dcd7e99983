# mypy: ignore-errors
"""Runs Lean on one file, in a process that has no other purpose and works in a folder of its own.

Lean is started before there is a file, and waits for it: so its start costs no time when it comes.
"""

_PARTS = (".olean", ".olean.server", ".olean.private")
_MOST_PRINTED = 1 << 20


def trace_bench_lean(step, *arguments):
    """``begin``: start Lean. ``compile``: give it the text; what it printed, its exit code, and the compiled files."""
    return globals()[f"_trace_bench_{step}"](*arguments)


def _trace_bench_begin(command, environment):
    import subprocess
    from pathlib import Path

    global _trace_bench_lean
    _trace_bench_lean = subprocess.Popen(
        [*command, "--json", "--stdin", "-DElab.async=false", "-o", "found.olean"],
        stdin=subprocess.PIPE, stdout=Path("printed").open("wb"), stderr=Path("said").open("wb"),  # noqa: SIM115
        env={**environment, "HOME": str(Path.cwd()), "TMPDIR": str(Path.cwd())},
    )  # fmt: skip


def _trace_bench_compile(text):
    from pathlib import Path

    _trace_bench_lean.communicate(text.encode())
    found = [Path("found").with_suffix(part) for part in _PARTS]
    return {
        "code": _trace_bench_lean.returncode,
        "printed": _trace_bench_text(Path("printed")),
        "said": _trace_bench_text(Path("said")),
        "files": [path.read_bytes() for path in found if path.exists()],
    }


def _trace_bench_text(path):
    with path.open("rb") as file:
        return file.read(_MOST_PRINTED).decode("utf-8", "replace")
