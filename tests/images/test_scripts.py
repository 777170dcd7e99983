"""The scripts that get a newcomer going say in one sentence what is missing."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.console import here
from tests.images.conftest import TOP


def _run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [script, *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout's scripts in a folder of their own."""
    shutil.copytree(TOP / "scripts", tmp_path / "scripts")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "smoke.yaml").write_text("{}\n")
    return tmp_path


@pytest.mark.docker
def test_ensure_engine_leaves_a_running_engine_alone() -> None:
    done = _run(TOP / "scripts" / "ensure-engine")
    assert done.returncode == 0
    assert done.stderr.startswith("ensure-engine: engine ") and done.stderr.endswith(" answers.\n")


def test_ensure_engine_starts_nothing_where_an_engine_is_named() -> None:
    done = _run(TOP / "scripts" / "ensure-engine", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert done.returncode == 3
    assert "no engine answers at DOCKER_HOST=unix:///nonexistent/docker.sock" in done.stderr
    assert "backend local" in done.stderr and done.stderr.count("\n") == 1


def test_quickstart_without_python_says_what_to_install(bare: Path) -> None:
    tools = bare / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = _run(bare / "scripts" / "quickstart", PATH=str(tools))
    assert done.returncode == 3
    assert "no CPython 3.11 to 3.13 with venv is on PATH" in done.stderr
    assert not (bare / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--nope"], "unknown argument '--nope'"), (["--config", "none.yaml"], "there is no config none.yaml")],
)
def test_quickstart_refuses_what_it_does_not_know(bare: Path, arguments: list[str], said: str) -> None:
    done = _run(bare / "scripts" / "quickstart", *arguments)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def _gvisor(folder: Path, working: str) -> dict[str, str]:
    """Variables with which a script meets a runsc of ours, one platform of which works."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    program = tools / "runsc"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo runsc version release-1 && exit\n'
        f'echo "$1" >>{folder}/tried\n[ "$1" = --platform={working} ] && exit\necho "no $1 here" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.skipif(os.getuid() != 0, reason="trying runsc needs root")
def test_runsc_config_finds_the_platform_that_works_and_tries_once(tmp_path: Path) -> None:
    variables = _gvisor(tmp_path, "ptrace")
    for _ in range(2):
        done = _run(TOP / "scripts" / "runsc-config", **variables)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["runtimes"]["runsc"]
        assert found == {
            "path": str(tmp_path / "bin" / "runsc"),
            "runtimeArgs": ["--platform=ptrace", "--network=none"],
        }
    tried = (tmp_path / "tried").read_text().split()
    assert tried[-2:] == ["--platform=systrap", "--platform=ptrace"] and len(tried) == len(set(tried))


@pytest.mark.skipif(os.getuid() != 0, reason="trying runsc needs root")
def test_runsc_config_says_why_nothing_works_and_keeps_no_answer(tmp_path: Path) -> None:
    for working, code in (("none", 3), ("systrap", 0)):
        done = _run(TOP / "scripts" / "runsc-config", **_gvisor(tmp_path, working))
        assert done.returncode == code, done.stderr
        if code:
            assert done.stdout == "" and done.stderr.count("\n") == 1
            assert "runsc version release-1 on " in done.stderr and "no --platform=ptrace here" in done.stderr


def test_runsc_config_without_runsc_says_what_to_install(tmp_path: Path) -> None:
    for name in ("bash", "env"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = _run(TOP / "scripts" / "runsc-config", PATH=str(tmp_path))
    assert done.returncode == 3 and done.stdout == ""
    assert "runsc is not on PATH; install it" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("ending", ["its owner", "what watches it"])
def test_a_virtual_machine_ends_with(tmp_path: Path, ending: str) -> None:
    """However that ends. A program of ours stands in for QEMU."""
    tools, run = tmp_path / "bin", tmp_path / "run-trixie"
    tools.mkdir()
    run.mkdir()
    (tools / "qemu-system-x86_64").write_text("#!/bin/sh\nexec sleep 600\n")
    (tools / "qemu-system-x86_64").chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TRACE_BENCH_VM_CACHE": str(tmp_path)}
    script = [TOP / "scripts" / "vm-host", "--release", "trixie"]
    with subprocess.Popen(["sleep", "600"]) as owner:
        with subprocess.Popen([*script, "keep", "--while", str(owner.pid)], env=env) as keeper:
            _until(lambda: (run / "pid").exists() and (run / "pid").read_text().endswith("\n"))
            machine = int((run / "pid").read_text())
            _until(lambda: Path(f"/proc/{machine}/comm").read_text() == "sleep\n")
            (owner if ending == "its owner" else keeper).kill()
            _until(lambda: not Path(f"/proc/{machine}").exists() or _is_over(machine))
        owner.kill()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_over(pid: int) -> bool:
    """True for a process that only its parent has to take note of."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_virtual_machine_is_off_and_takes_no_command_before_it_is_started(tmp_path: Path) -> None:
    script, where = TOP / "scripts" / "vm-host", {"TRACE_BENCH_VM_CACHE": str(tmp_path)}
    done = _run(script, "status", **where)
    assert (done.returncode, done.stdout) == (1, "bookworm is off\n")
    for command in (["link", "off"], ["ssh", "true"]):
        done = _run(script, *command, **where)
        assert (done.returncode, done.stderr) == (3, "vm-host: bookworm does not run.\n")


def test_the_debian_mirror_is_not_looked_for_where_there_is_no_apt(tmp_path: Path) -> None:
    for name in ("bash", "env"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = _run(TOP / "scripts" / "debian-mirror", PATH=str(tmp_path))
    assert done.returncode == 3 and done.stdout == ""
    assert "this is not Debian" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["second-engine", "loopback-registry", "engine-certificates", "vm-host"])
def test_helpers_show_their_usage(name: str) -> None:
    done = _run(TOP / "scripts" / name)
    assert done.returncode == 2 and done.stderr.startswith("usage: ")


@pytest.mark.parametrize("has_litellm", [False, True])
def test_quickstart_ends_with_the_one_command_for_a_real_model(bare: Path, has_litellm: bool) -> None:
    """On an environment that is there and does nothing, apart from saying whether it has litellm."""
    bin_ = bare / ".venv" / "bin"
    bin_.mkdir(parents=True)
    for name, script in {
        "python": f'case "$*" in *litellm*) exit {int(not has_litellm)};; esac',
        "trace-bench": 'echo "$*"',
    }.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_ / name).chmod(0o755)
    for stamp in (bare / "pyproject.toml", bare / ".venv" / ".trace-bench-installed"):
        stamp.write_text("")
    done = _run(bare / "scripts" / "quickstart", "--local")
    assert done.returncode == 0 and done.stdout == "run configs/smoke.yaml --backend local\n", done.stderr
    last = done.stderr.splitlines()[-1]
    assert "put your key in OPENAI_API_KEY" in last and (".venv/bin/pip install -e '.[llm]' && " in last) != has_litellm
    command = shlex.split(last[last.index(".venv/bin/trace-bench") :])[1:]
    assert command == ["run", "smoke_real.yaml", "-m", "openai/gpt-4o-mini", "--backend", "local"]
    plan = here(*command, "--dry-run", "--json")
    assert plan.returncode == 0 and {job["model"] for job in json.loads(plan.stdout)["jobs"]} == {"gpt-4o-mini"}


@pytest.mark.docker
@pytest.mark.slow
def test_quickstart_takes_a_bare_checkout_to_a_leaderboard(tmp_path: Path) -> None:
    """Two runs: the second finds everything there."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(TOP), str(checkout)], check=True)
    environment = {**os.environ, "TRACE_BENCH_HOME": str(tmp_path / "home")}
    for _ in range(2):
        done = subprocess.run(
            [checkout / "scripts" / "quickstart"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "llm4ad:circle_packing" in done.stdout and "2 of 2 jobs ok" in done.stdout
    assert len(list((checkout / "runs").iterdir())) == 2


@pytest.mark.parametrize(("does", "refused"), [("echo 'no MSR 0x10a' >&2; exit 1", True), ("exec sleep 60", False)])
def test_an_accelerator_that_runs_no_machine_is_found_out_before_images_are_made(
    does: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text(f"#!/bin/sh\n{does}\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    check = runpy.run_path(str(TOP / "scripts" / "vm-host"))["_check_accelerator"]
    if not refused:
        check()
        return
    with pytest.raises(SystemExit) as ended:
        check()
    assert ended.value.code == 3 and "no MSR 0x10a" in capsys.readouterr().err
