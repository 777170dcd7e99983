"""Mistakes that people make in configs and arguments: each is one sentence with its place and a remedy, and the right
exit code; nothing is made, and no engine is asked.

They go through the command's own entry point in this process, where a process of its own would add nothing but time;
some of them are made once more as a user would.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import NO_ENGINE, assert_refused
from tests.integration.cli import cli
from trace_bench import cli as command_line

TASKS = "tasks: [internal:numeric_param]\n"
SEARCH = TASKS + "trainers:\n  - id: PrioritySearch\n"
RUN = ["run", "-c", "config.yaml"]
KEY = "sk-" + 5 * "0123"
Snapshot = dict[str, bytes]

# name: (text of the config, line or None for the whole file, what the sentence says)
CONFIGS: dict[str, tuple[str | bytes, int | None, tuple[str, ...]]] = {
    "empty file": ("", None, ("is empty", "docs/reference/config.md")),
    "yaml that ends too early": ("tasks: [a\n b: {", 2, ("is not valid YAML",)),
    "a tab": (TASKS + "sandbox:\n\tcpus: 1\n", 3, ("tab indents here; use spaces",)),
    "another encoding": (b"tasks: [\xff]", 1, ("is not UTF-8; save the file as UTF-8",)),
    "json that ends too early": ('{"tasks": [\n', 2, ("is not valid",)),
    "a list of tasks only": ("- internal:numeric_param\n", 1, ("holds a list; a config is a mapping",)),
    "an unknown key": (TASKS + "trainer: [NoOp]\n", 2, ("unknown key 'trainer'; did you mean 'trainers'?",)),
    "a key in the wrong place": (TASKS + "memory: 2g\n", 2, ("unknown key 'memory'; 'memory' is a key of sandbox",)),
    "a key of the top in a trainer": (SEARCH + "    seeds: [1]\n", 4, ("'seeds' is a key of the top level",)),
    "a key twice": (TASKS + TASKS, 2, ("'tasks' is given twice, first on line 1; keep one",)),
    "two names of one key": (TASKS + "seeds: [1]\nseed: 2\n", 3, ("two names of one key; keep one",)),
    "no tasks": ("trainers: [NoOp]\n", 1, ("tasks is missing; a config names at least one task",)),
    "an empty list of tasks": ("tasks: []\n", 1, ("tasks is empty; name at least one",)),
    "one task without a list": ("tasks: internal:numeric_param\n", 1, ("must be a list", "write [internal:num")),
    "the same task twice": (TASKS[:-2] + ", internal:numeric_param]\n", 1, ("is the same task as", "delete one")),
    "a task that is not there": ("tasks: [internal:numeric_parm]\n", 1, ("did you mean 'internal:numeric_param'?",)),
    "a suite that is not there": ("tasks: [nope:x]\n", 1, ("there is no suite 'nope'", "known are")),
    "a trainer that is not there": (TASKS + "trainers: [NoOpp]\n", 2, ("unknown trainer 'NoOpp'; did you mean",)),
    "an optimizer that is not there": (SEARCH + "    optimizer: OPPO\n", 4, ("'OPPO' is not known; did you mean",)),
    "a guide that is not there": (SEARCH + "    guide: Jury\n", 4, ("guide is 'Jury'", "known are default, LLMJudge")),
    "an optimizer for a trainer that uses none": (
        TASKS + "trainers:\n  - id: NoOp\n    optimizer: OptoPrime\n",
        4,
        ("uses no optimizer; delete this key",),
    ),
    "a parameter misspelt": (SEARCH + "    params:\n      num_step: 3\n", 5, ("did you mean 'num_steps'?",)),
    "a parameter in quotes": (SEARCH + "    params: {num_steps: '3'}\n", 4, ("num_steps must be a whole number",)),
    "a parameter out of bounds": (SEARCH + "    params: {num_candidates: 0}\n", 4, ("must be at least 1",)),
    "a parameter by two names": (SEARCH + "    params: {ps_steps: 1, num_steps: 2}\n", 4, ("two names of one",)),
    "a knob that nobody takes": (TASKS + "trainers: [NoOp]\nverbose: true\n", 3, ("no trainer of this config takes",)),
    "variants that are the same": (
        SEARCH + "    params_variants:\n      - {ps_steps: 2}\n      - {num_steps: 2}\n",
        6,
        ("makes the same jobs as", "delete one of them"),
    ),
    "an argument that the task lacks": (
        "tasks:\n  - id: circle_packing\n    eval_kwargs: {nn: 3}\n",
        3,
        ("takes no 'nn'", "did you mean 'n'?"),
    ),
    "seeds in quotes": (TASKS + "seeds: ['1']\n", 2, ("seeds[0] must be a whole number", "take it out of quotes")),
    "a seed twice": (TASKS + "seeds: [4, 4]\n", 2, ("is the same seed as", "delete one")),
    "no workers": (TASKS + "max_workers: 0\n", 2, ("max_workers must be at least 1",)),
    "a time with its unit": (TASKS + "job_timeout: 10m\n", 2, ("job_timeout must be a number, not '10m'",)),
    "a mode without a model": (TASKS + "mode: real\n", 2, ("mode real: names no model; give one with -m",)),
    "a backend misspelt": (TASKS + "backend: dcoker\n", 2, ("must be one of 'auto', 'docker', 'modal', 'local'",)),
    "yes for true": (TASKS + "fail_fast: yes\n", 2, ("fail_fast must be true or false, not 'yes'; write true",)),
    "a path as the run's name": (TASKS + "run_id: a/b\n", 2, ("run_id must be a folder name",)),
    "a size that is none": (TASKS + "sandbox: {memory: lots}\n", 2, ("must be a size such as '512m' or '2g'",)),
    "fewer GPUs than none": (TASKS + "sandbox: {gpus: -1}\n", 2, ("sandbox.gpus must be at least 0",)),
    "a control misspelt": (TASKS + "sandbox: {require_controls: [netwrok]}\n", 2, ("did you mean 'network'?",)),
    "a control that cannot be given up": (TASKS + "sandbox: {allow_weaker: [network]}\n", 2, ("cannot be given up",)),
    "a task root that is not there": (TASKS + "task_roots: [nowhere]\n", 2, ("'nowhere' does not exist; name",)),
    "a provider's key": (TASKS + f"llm: {{api_key: {KEY}}}\n", 2, ("holds a secret; take it out", "api_key_env")),
}  # fmt: skip

# name: (arguments, what the sentence begins with, what else it says)
ARGUMENTS: dict[str, tuple[list[str], str, tuple[str, ...]]] = {
    "no config": (["run"], "nothing is named to run; name a config", ("see trace-bench run --help",)),
    "a config that is not there": (["run", "-c", "none.yaml"], "none.yaml: does not exist", ("check the path",)),
    "a folder as config": (["run", "-c", "folder"], "folder: is a folder", ("name the config file in it",)),
    "a command misspelt": (["rnu"], "No such command 'rnu'", ("did you mean 'run'? See trace-bench --help",)),
    "an option misspelt": (["run", "--confg", "x"], "No such option: --confg", ("See trace-bench run --help",)),
    "no workers": ([*RUN, "--max-workers", "0"], "option --max-workers: ", ("at least 1",)),
    "workers in words": (
        [*RUN, "--max-workers", "two"],
        "--max-workers must be a whole number, not 'two'; ",
        ("see trace-bench run --help",),
    ),
    "a backend misspelt": ([*RUN, "--backend", "nope"], "option --backend: ", ("one of 'auto'",)),
    "a path as the run's name": ([*RUN, "--run-id", "../x"], "option --run-id: ", ("folder name",)),
    "no name for the run": ([*RUN, "--run-id", ""], "option --run-id: ", ("must not be empty",)),
    "no folder of runs": ([*RUN, "--runs-dir", ""], "option --runs-dir: ", ("must not be empty",)),
    "a file as the folder of runs": (
        [*RUN, "--runs-dir", "config.yaml/x/y"],
        "option --runs-dir: ",
        ("config.yaml is no folder; name another one",),
    ),
    "a root that is not there": (
        [*RUN, "--root", "nowhere"],
        "--root nowhere: no such folder",
        ("name a folder",),
    ),
    "a time below none": ([*RUN, "--job-timeout", "-1"], "--job-timeout must be 0 (no limit) or more", ("not -1",)),
    "a way to resume that is not there": (
        [*RUN, "--resume", "faild"],
        "option --resume: ",
        ("did you mean 'failed'?",),
    ),
    "options that contradict each other": ([*RUN, "-q", "-v"], "--verbose and --quiet", ("one of them",)),
    "suites that are not there": (["list-tasks", "--bench", "nope"], "--bench: there is no suite nope", ("known are",)),
    "a root of tasks that is not there": (["list-tasks", "--root", "nowhere"], "--root nowhere: ", ("no such folder",)),
    "a schema that is not there": (["schema", "nope"], "there is no schema 'nope'", ("known are",)),
    "one schema too many": (["schema", "job", "result"], "Got unexpected extra argument", ("see trace-bench schema",)),
    "a family that is not there": (["images", "build", "cor"], "", ("unknown image family 'cor'",)),
    "no registry": (["images", "push", "core"], "Missing option '--registry'", ("see trace-bench images push --help",)),
    "an image without a digest": (["images", "pull", "x/core:1"], "", ("x/core:1", "@sha256:")),
    "a backend to clean that is not there": (["clean", "--backend", "nope"], "", ("'nope'", "docker")),
    "no runs to show": (["show", "nope"], "there is no run 'nope' in runs", ("trace-bench run makes one",)),
    "an argument that no task takes": (
        ["check-task", "llm4ad:optimization/online_bin_packing", "--set", "n_itemz=5"],
        "option --set: ",
        ("no task of this config takes 'n_itemz'", "did you mean 'n_items'?"),
    ),
    "an argument of another type": (
        ["check-task", "llm4ad:tag=packing", "--set", "size=small", "--set", "n_items=many"],
        "option --set: ",
        ("n_items must be a whole number, not 'many'",),
    ),
    "an argument out of bounds": (
        ["check-task", "llm4ad:optimization/online_bin_packing", "--set", "n_items=0"],
        "option --set: ",
        ("n_items must be at least 1",),
    ),
    "an argument without a value": (
        ["check-task", "internal:code_param", "--set", "n_strings"],
        "--set n_strings: is no argument",
        ("write NAME=VALUE",),
    ),
    "suites to validate that are not there": (
        ["validate", "-c", "config.yaml", "--bench", "nope"],
        "--bench: there is no suite nope",
        ("known are",),
    ),
}  # fmt: skip


def said(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code, and what stands on stderr once a command was refused."""
    monkeypatch.setattr(sys, "argv", ["trace-bench", *arguments])
    code = command_line._code()
    gc.unfreeze()  # `run` freezes what there is, for a process that ends with it
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return code, err


def write(place: Path, name: str) -> None:
    """Make the mistake of that name."""
    text = CONFIGS[name][0]
    (place / "config.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())


def files_below(folder: Path) -> Snapshot:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with no engine to be had, and a home that does not exist."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    (tmp_path / "config.yaml").write_text(TASKS)
    (tmp_path / "folder").mkdir()
    return tmp_path


def assert_one_sentence(err: str, begins: str, parts: tuple[str, ...]) -> None:
    assert err.startswith(f"error: {begins}") and err.count("\n") == 1 and err.endswith("\n"), err
    assert err[:-1].isprintable(), err
    for part in parts:
        assert part in err, err


@pytest.mark.parametrize("command", ["run", pytest.param("validate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_mistake_in_a_config(
    name: str, command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line, parts = CONFIGS[name][1:]
    write(place, name)
    before = files_below(place)
    code, err = said([command, "--config", "config.yaml"], monkeypatch, capsys)
    assert code == 2, err
    assert_one_sentence(err, f"config.yaml, line {line}: " if line else "config.yaml: ", parts)
    assert files_below(place) == before, "something was made"
    assert KEY not in err


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_mistake_in_the_arguments(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, begins, parts = ARGUMENTS[name]
    before = files_below(place)
    code, err = said(arguments, monkeypatch, capsys)
    assert code == 2, err
    assert_one_sentence(err, begins, parts)
    assert files_below(place) == before, "something was made"


def test_there_are_more_than_thirty_and_no_two_are_told_alike(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = set()
    for name in CONFIGS:
        write(place, name)
        told.add(said(RUN, monkeypatch, capsys)[1])
    assert len(told) == len(CONFIGS) >= 30


@pytest.mark.parametrize("command", ["run", "run --dry-run", "validate --strict"])
def test_a_file_as_the_folder_of_runs(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "config.yaml").write_text(TASKS + "runs_dir: config.yaml\n")
    code, err = said([*command.split(), "-c", "config.yaml"], monkeypatch, capsys)
    assert code == 2
    assert_one_sentence(err, "config.yaml, line 2: runs_dir: ", ("config.yaml is no folder; name another one",))


def test_a_broken_task_is_told_by_its_own_file(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "folder" / "mine").mkdir()
    (place / "folder" / "mine" / "task.toml").write_text('title = "x"\n[score\n')
    (place / "config.yaml").write_text("tasks: [internal:mine]\ntask_roots: [folder]\n")
    code, err = said(RUN, monkeypatch, capsys)
    assert code == 2
    assert_one_sentence(err, "folder/mine/task.toml, line 2: is not valid TOML", ())


def test_several_mistakes_are_one_sentence_each(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "config.yaml").write_text("tasks: [internal:nope]\ntrainers: [Nope]\nsplits: {train: 0}\nseeds: [x]\n")
    code, err = said(RUN, monkeypatch, capsys)
    assert code == 2 and err.count("error: ") == 1
    lines = err.removeprefix("error: ").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["config.yaml, line 3", "config.yaml, line 4"]
    (place / "config.yaml").write_text("tasks: [internal:nope]\ntrainers: [Nope]\n")
    lines = said(RUN, monkeypatch, capsys)[1].removeprefix("error: ").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["config.yaml, line 1", "config.yaml, line 2"]


@pytest.mark.parametrize("command", ["run", pytest.param("validate", marks=pytest.mark.slow)])
def test_what_is_no_mistake_of_the_user_is_another_exit_code(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(place)
    code, err = said([command, "-c", "config.yaml"], monkeypatch, capsys)
    assert code == 3
    assert_one_sentence(err, "", (NO_ENGINE, "--backend local", "unprotected"))
    assert files_below(place) == before


@pytest.mark.parametrize("name", ["an unknown key", "a task that is not there", "a provider's key"])
def test_a_mistake_in_a_config_as_a_user_makes_it(name: str, place: Path) -> None:
    line, parts = CONFIGS[name][1:]
    write(place, name)
    before = files_below(place)
    done = cli("run", "--config", "config.yaml", home=place / "home", cwd=place, timeout=60)
    assert_refused(done, 2)
    assert_one_sentence(done.stderr, f"config.yaml, line {line}: ", parts)
    assert files_below(place) == before


@pytest.mark.parametrize("name", ["a config that is not there", "no workers", "suites that are not there"])
def test_a_mistake_in_the_arguments_as_a_user_makes_it(name: str, place: Path) -> None:
    arguments, begins, parts = ARGUMENTS[name]
    done = cli(*arguments, home=place / "home", cwd=place, timeout=60)
    assert_refused(done, 2)
    assert_one_sentence(done.stderr, begins, parts)
