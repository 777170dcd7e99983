"""Shell completion: what a shell is offered, and that it gets it, in a real bash and zsh."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import here
from tests.integration.cli import environment
from trace_bench.cli.complete import rejoined
from trace_bench.suites.registry import discover

PROGRAM = Path(sys.executable).with_name("trace-bench")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """What bash is offered for the last of its words."""
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_TRACE_BENCH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(("trace-bench", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        done = here()
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.splitlines()

    return ask


def test_tasks_trainers_models_and_backends_are_offered(offered) -> None:  # type: ignore[no-untyped-def]
    assert offered("run", "-t", "") == [entry.id for entry in discover()]
    assert offered("run", "-t", "internal", ":", "nu") == ["numeric_param"], "bash replaces what is behind the colon"
    assert offered("run", "-t", "internal", ":", "numeric_param", "-T", "Prio") == ["PrioritySearch"]
    assert offered("trainers", "NoO") == ["NoOp"] and "llm4ad:circle_packing" in offered("tasks", "llm4ad")
    assert offered("run", "-m", "st") == ["stub"] and offered("run", "--backend", "l") == ["local"]


def test_parameters_of_the_trainers_that_are_named_are_offered(offered) -> None:  # type: ignore[no-untyped-def]
    assert offered("run", "-T", "PrioritySearch", "-p", "num_st") == ["num_steps="]
    assert offered("run", "-p", "") == [] == offered("run", "-T", "Priority", "-p", "")


def test_configs_are_those_of_the_folder_and_the_shipped_ones(offered) -> None:  # type: ignore[no-untyped-def]
    Path("mine.yaml").write_text("tasks: []")
    Path("mine.txt").write_text("")
    Path("more").mkdir()
    Path("more/other.yml").write_text("")
    assert offered("run", "mi") == ["mine.yaml"] and "smoke.yaml" in offered("validate", "-c", "s")
    assert offered("run", "--config", "=", "mi") == ["mine.yaml"]
    assert offered("run", "more/") == ["more/other.yml"]


def test_runs_and_their_jobs_are_offered(offered) -> None:  # type: ignore[no-untyped-def]
    assert offered("show", "") == []
    (Path("runs/first/meta")).mkdir(parents=True)
    (Path("runs/first/meta/manifest.json")).write_text("{}")
    (Path("runs/first/jobs/0123456789ab")).mkdir(parents=True)
    assert offered("show", "") == ["latest", "first"]
    assert offered("show", "first", "01") == ["0123456789ab"]
    assert offered("show", "--runs-dir", "elsewhere", "") == []


def test_commands_and_options_are_offered_without_hidden_ones(offered) -> None:  # type: ignore[no-untyped-def]
    assert offered("t") == ["tasks", "trainers"] and offered("list") == []
    assert offered("run", "--mo") == ["--model"]


@pytest.mark.parametrize(
    ("words", "last", "whole", "cut"),
    [
        (["x", "a", ":"], 2, ["x", "a:"], "a:"),
        (["x", "--root", "=", "b", ":", "c"], 5, ["x", "--root=b:c"], "--root=b:"),
        (["x", "a", "b"], 1, ["x", "a"], ""),
        (["x", "a", ":", "b", ""], 4, ["x", "a:b", ""], ""),
    ],
)
def test_words_that_bash_cut_are_whole_again(words: list[str], last: int, whole: list[str], cut: str) -> None:
    assert rejoined(words, last) == (whole, cut)


def test_a_real_bash_completes_a_task(tmp_path: Path) -> None:
    script = (
        f"trace-bench() {{ {PROGRAM} \"$@\"; }}; eval \"$({PROGRAM} --show-completion bash)\"\n"
        "COMP_WORDS=(trace-bench run -t internal : nu) COMP_CWORD=5\n"
        f"_trace_bench_completion {PROGRAM} && printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env=environment(), check=True)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout == "numeric_param\n", done.stderr
    both = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert both < 2, "two starts, of the script and of the completion, each far below half a second of CPU"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_a_real_zsh_completes_a_task(tmp_path: Path) -> None:
    script = (
        "compdef() { : }; _arguments() { print -r -- \"$@\" }\n"
        f"trace-bench() {{ {PROGRAM} \"$@\" }}; path=({PROGRAM.parent} $path)\n"
        f"eval \"$({PROGRAM} --show-completion zsh)\"\n"
        "words=(trace-bench run -t internal:nu) CURRENT=4; _trace_bench_completion"
    )  # fmt: skip
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env=environment(), check=True)  # fmt: skip
    assert "internal\\\\:numeric_param" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "asked",
    [
        {"_TRACE_BENCH_COMPLETE": "complete_bash", "COMP_WORDS": "trace-bench\nrun\n-t\n", "COMP_CWORD": "3"},
        {"_TRACE_BENCH_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "trace-bench "},
    ],
)
def test_completion_imports_nothing_large(asked: dict[str, str]) -> None:
    program = (
        "import sys, os, trace_bench.cli as cli\n"
        f"os.environ |= {asked!r}\n"
        "try: cli._code()\n"
        "except SystemExit: pass\n"
        "print([n for n in ('docker', 'rich.console', 'yaml', 'pandas') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout[-200:]
