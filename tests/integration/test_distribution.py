"""What people install: the wheel, the source archive, the controller's image. All of it outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.gateway.openai_server import OpenAIServer
from tests.integration.cli import REPOSITORY, Done, result_of

BUILD = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
KEYS = """
import json
from trace_bench.images.recipe import image_key, load_families
print(json.dumps({name: image_key(family.recipe, "a base") for name, family in load_families().items()}))
"""


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, run from an empty folder with a home of its own."""

    venv: Path
    folder: Path
    home: Path

    def run(self, program: str, *arguments: str, timeout: float = 300) -> Done:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}
        done = subprocess.run(
            [str(self.venv / "bin" / program), *arguments],
            cwd=self.folder, env={**kept, "TRACE_BENCH_HOME": str(self.home)},
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*BUILD, str(folder), "--wheel", str(REPOSITORY)], check=True, capture_output=True, text=True)
    (found,) = folder.glob("trace_bench-*.whl")
    return found


@pytest.fixture(scope="module", params=["linked", pytest.param("pinned", marks=pytest.mark.slow)])
def installed(
    request: pytest.FixtureRequest, wheel: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """The wheel with what ``requirements/host.txt`` names: linked from this environment, or installed as pinned."""
    top = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(top / "venv")], check=True)
    folder = top / "elsewhere"
    folder.mkdir()
    made = Installed(top / "venv", folder, home)
    if request.param == "linked":
        _link_requirements(top / "venv")
    else:
        done = _pip(made, "--require-hashes", "-r", str(_host_requirements()))
        if done.returncode != 0 and "hash" not in done.stderr.lower():
            pytest.skip(f"pip reaches no index here: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
    done = _pip(made, "--no-index", str(wheel))
    assert done.returncode == 0, done.stderr
    return made


def _pip(made: Installed, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Install into the environment with the pip of this one."""
    command = [sys.executable, "-m", "pip", "--python", str(made.venv / "bin" / "python"), "install", "-q", "--no-deps"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=made.folder)


def _link_requirements(venv: Path) -> None:
    """Link the files of the packages that ``requirements/host.txt`` names, and of no others, into `venv`."""
    (site,) = venv.glob("lib/python3*/site-packages")
    for line in _host_requirements().read_text().splitlines():
        if "==" not in line:
            continue
        pinned = Requirement(line.rstrip(" \\"))
        if pinned.marker is None or pinned.marker.evaluate():
            found = distribution(pinned.name)
            for top in {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}:
                (site / top).symlink_to(Path(str(found.locate_file(top))))


def _host_requirements() -> Path:
    return REPOSITORY / "requirements" / "host.txt"


def _data_files() -> set[str]:
    """What git would put into a clone, of the folders that travel in the wheel."""
    folders = ["benchmarks", "configs", "images", "schemas"]
    command = ["git", "-C", str(REPOSITORY), "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {name for name in listed if (REPOSITORY / name).is_file()}


def test_the_wheel_holds_package_and_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"trace_bench/_data/{name}" for name in _data_files()} <= names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"trace_bench", next(t for t in tops if t.endswith(".dist-info"))}
    tests = re.compile(r"(^|[/_.])(tests?|conftest)([/_.]|$)")
    # Tasks in Harbor's format have tests/, and data sets have a split named test.
    names = [n for n in names if "/benchmarks/terminal_bench/" not in n and "/benchmarks/hf/fixtures/" not in n]
    names.remove("trace_bench/suites/hf/code_tests.py")  # it runs the tests of programs
    assert not [n for n in names if tests.search(n.lower()) or "__pycache__" in n or n.endswith(".pyc")]
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([*BUILD, str(tmp_path), "--sdist", str(REPOSITORY)], check=True, capture_output=True, text=True)
    (archive,) = tmp_path.glob("trace_bench-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert (source / "LICENSE").is_file() and not (source / ".venv").exists() and not (source / "runs").exists()
    subprocess.run([*BUILD, str(tmp_path), "--wheel", str(source)], check=True, capture_output=True, text=True)
    (again,) = tmp_path.glob("trace_bench-*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_installed_package_lists_tasks_trainers_and_schemas(installed: Installed) -> None:
    assert installed.run("trace-bench", "--version").stdout.startswith("trace-bench ")
    tasks = installed.run("trace-bench", "list-tasks", "--json")
    rows = json.loads(tasks.stdout)
    assert len(rows) == 168 and all(str(installed.venv) in row["folder"] for row in rows), tasks.stderr
    assert "NoOp\tavailable" in installed.run("trace-bench", "list-trainers").stdout.splitlines()
    assert json.loads(installed.run("trace-bench", "schema", "results").stdout)["$schema"]
    assert list(installed.folder.iterdir()) == []


def test_checkout_and_wheel_give_the_same_image_keys(installed: Installed) -> None:
    env = {**os.environ, "TRACE_BENCH_HOME": str(installed.home)}  # which may hold an archive that is part of a key
    ours = subprocess.run(
        [sys.executable, "-c", KEYS], capture_output=True, text=True, check=True, cwd=REPOSITORY, env=env
    )
    theirs = installed.run("python", "-c", KEYS)
    assert json.loads(theirs.stdout) == json.loads(ours.stdout)


def test_the_installed_package_runs_without_an_engine(installed: Installed) -> None:
    done = installed.run("trace-bench", "run", "--config", "m1_validation.yaml", "--backend", "local", "--json",
                         "--runs-dir", "local-runs")  # fmt: skip
    rows = result_of(done.stdout)["jobs"]
    failed = [row for row in rows if row["status"] != "ok"]
    # The graph library is in the images, not on the host: tasks that need it say so.
    assert len(rows) == 7 and all("trace-opt" in row["feedback"] for row in failed), failed


@pytest.mark.docker
def test_the_installed_package_runs_the_smoke_config(installed: Installed, images: Path) -> None:
    done = installed.run("trace-bench", "run", "--config", "smoke.yaml", "--json")
    assert done.returncode == 0, done.stderr
    result = result_of(done.stdout)
    assert [row["status"] for row in result["jobs"]] == ["ok", "ok"]
    folder = installed.folder / result["folder"]
    assert folder.parent == installed.folder / "runs"
    assert json.loads((folder / "meta" / "git.json").read_text())["commit"] is None


@pytest.fixture(scope="module")
def controller(engine: str) -> str:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "build-controller")], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def controller_with_litellm(engine: str) -> str:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "build-controller"), "--llm"],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def volume() -> Iterator[str]:
    """A volume for the home of the controller; removed afterwards."""
    name = f"trace-bench-test-{uuid.uuid4().hex[:12]}"
    yield name
    subprocess.run(["docker", "volume", "rm", "--force", name], check=True, capture_output=True)


@pytest.mark.docker
@pytest.mark.slow
def test_the_controller_runs_as_a_container(controller: str, images: Path, volume: str, tmp_path: Path) -> None:
    if os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock") != "unix:///var/run/docker.sock":
        pytest.skip("the engine is not at the default socket")
    mounts = ["/var/run/docker.sock:/var/run/docker.sock", "/run/lock/trace-bench:/run/lock/trace-bench",
              f"{volume}:/var/lib/trace-bench", f"{tmp_path}:/work"]  # fmt: skip
    inside = ["docker", "run", "--rm", "--network", "none", "-w", "/work", *(w for m in mounts for w in ("-v", m))]
    done = subprocess.run([*inside, controller, "run", "--config", "smoke.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 jobs ok" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    rows = [json.loads(path.read_text()) for path in run.glob("jobs/*/results.json")]
    assert {row["integrity"] for row in rows} == {"protected"} and {row["backend"] for row in rows} == {"docker"}
    locked = subprocess.run([*inside, controller, "images", "verify"], capture_output=True, text=True)
    assert locked.returncode == 0 and len(locked.stdout.splitlines()) == 2, locked.stderr


@pytest.mark.docker
@pytest.mark.slow
def test_the_controller_in_a_container_says_when_it_has_no_engine(controller: str) -> None:
    done = subprocess.run(["docker", "run", "--rm", "--network", "none", controller, "run", "--config", "smoke.yaml"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 3 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert shutil.which("docker") and done.stdout == ""


@pytest.mark.docker
@pytest.mark.slow
def test_the_controller_in_a_container_says_how_to_have_one_for_mode_real(controller: str) -> None:
    named = ["-e", "TRACE_LITELLM_MODEL=openai/gpt-4o-mini", "-e", "OPENAI_API_KEY=of-nobody"]
    done = subprocess.run(["docker", "run", "--rm", "--network", "none", *named, controller, "run", "--config",
                           "smoke_real.yaml"], capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert "litellm, which is not installed" in done.stderr and "scripts/build-controller --llm" in done.stderr


@pytest.mark.docker
@pytest.mark.slow
def test_the_controller_with_litellm_asks_a_provider(
    controller_with_litellm: str, images: Path, volume: str, tmp_path: Path
) -> None:
    if os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock") != "unix:///var/run/docker.sock":
        pytest.skip("the engine is not at the default socket")
    mounts = ["/var/run/docker.sock:/var/run/docker.sock", "/run/lock/trace-bench:/run/lock/trace-bench",
              f"{volume}:/var/lib/trace-bench", f"{tmp_path}:/work"]  # fmt: skip
    with OpenAIServer() as server:
        named = [
            f"OPENAI_BASE_URL={server.url}",
            "TRACE_LITELLM_MODEL=openai/gpt-4o-mini",
            "OPENAI_API_KEY=of-nobody-01",
        ]
        options = [*(w for m in mounts for w in ("-v", m)), *(w for n in named for w in ("-e", n))]
        done = subprocess.run(
            ["docker", "run", "--rm", "--network", "host", "-w", "/work", *options, controller_with_litellm,
             "run", "--config", "smoke_real.yaml"], capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0 and "2 of 2 jobs ok" in done.stdout, done.stdout + done.stderr
    assert {asked.headers["authorization"] for asked in server.requests} == {"Bearer of-nobody-01"}
