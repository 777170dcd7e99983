"""Trainers of other packages: installed, listed, validated and run in containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_docs import commands_of
from tests.integration.cli import REPOSITORY, Done, result_of

PAGE = "how-to/add-a-trainer.md"

TRAINER = """
from pathlib import Path
from trace_bench.trainers.base import Step

class _Keeps:
    summary, source, params = "Keeps what is there.", "none", ()
    uses_llm = uses_graph = False
    def search(self, search):
        import gepa, importlib.util, sys
        assert sys.path.index("/opt/trace-bench/plugins") < sys.path.index("/opt/trace-bench/lib")
        from acme_search.deep import said
        value = float(said())
        rollouts = search.evaluate({"guess": value}, search.examples(search.selection), search.selection)
        yield Step(1, gepa.__name__, ("seed",), {"guess": value}, tuple(rollouts), search.selection)
"""
FILES = {
    "acme_search/__init__.py": TRAINER,
    "acme_search/layered.py": "from acme_search import _Keeps\nclass Layered(_Keeps):\n"
    "    name = 'Layered'\n    layer = 'gepa'\n",
    "acme_search/pinned.py": "from acme_search import _Keeps\nclass Pinned(_Keeps):\n"
    "    name = 'Pinned'\n    requirements = 'pins.txt'\n",
    "acme_search/deep/__init__.py": "from pathlib import Path\n"
    "def said():\n    return Path(__file__).with_name('said.txt').read_text()\n",
    "acme_search/deep/said.txt": "2.75\n",
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "Acme_Search"
version = "3.2.1"
[project.entry-points."trace_bench.trainers"]
Layered = "acme_search.layered:Layered"
Pinned = "acme_search.pinned:Pinned"
""",
}


@dataclass(frozen=True)
class Host:
    """An environment with Trace-Bench and what these tests install, and a home of its own."""

    folder: Path
    home: Path

    def run(self, *command: str, timeout: float = 300) -> Done:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        kept["TRACE_BENCH_HOME"] = str(self.home)
        python = str(self.folder / "venv" / "bin" / "python")
        done = subprocess.run(
            [python, *command], cwd=self.folder, env=kept, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def trace_bench(self, *arguments: str) -> Done:
        return self.run("-m", "trace_bench", *arguments)

    def install(self, *arguments: str) -> None:
        done = self.run("-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", *arguments)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def host(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (site,) = (folder / "venv").glob("lib/python3*/site-packages")
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{REPOSITORY}\n")
    home = folder / "home"
    home.mkdir()
    shutil.copy(images / "images.lock.json", home)
    (images / "cache").mkdir(exist_ok=True)  # nothing had to be downloaded, if the engine had every image
    (home / "cache").symlink_to(images / "cache")
    made = Host(folder, home)
    for name, text in FILES.items():
        path = folder / "acme" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(REPOSITORY / "images" / "layers" / "gepa" / "requirements.txt", folder / "acme/acme_search/pins.txt")
    made.install("./acme")
    yield made
    import docker

    locked = json.loads((home / "images.lock.json").read_text())["images"]
    client = docker.from_env()
    for name in [family.replace("+", "__") for family in locked if "hill-climb" in family or "acme" in family]:
        for repository in (f"trace-bench/{name}", f"trace-bench/{name}-deps"):
            for tag in [tag for image in client.images.list(repository) for tag in image.tags]:
                if tag.startswith(f"{repository}:"):
                    client.images.remove(tag)
    client.close()


def in_image(ref: str, package: str) -> str:
    """What a Python in the image says: the spec of `package`, and what is in the folders that it could lie in."""
    import docker

    code = f"import os, importlib.util as found; print(found.find_spec('{package}')); os.chdir('/opt/trace-bench');"
    code += f"print(os.listdir('lib'), sorted(os.listdir('plugins')), os.listdir('plugins/{package}'))"
    client = docker.from_env()
    said = client.containers.run(ref, ["python3", "-I", "-c", code], remove=True, network_mode="none").decode()
    client.close()
    return str(said)


@pytest.mark.slow
@pytest.mark.docker
def test_the_trainer_of_the_how_to_runs_in_a_container(host: Host) -> None:
    new, shown, run_it, compared = commands_of(PAGE)
    assert host.trace_bench(*new).returncode == 0
    host.install("-e", "hill_climb")
    assert "HillClimb" in host.trace_bench(*shown).stdout
    planned = host.trace_bench(*compared, "--dry-run", "--backend", "local")
    assert planned.returncode == 0 and "8 jobs: 8 to run" in planned.stdout, planned.stderr
    ran = host.trace_bench(*run_it)
    assert ran.returncode == 0 and "2 of 2 jobs ok" in ran.stdout, ran.stdout + ran.stderr
    (run,) = (host.folder / "runs").iterdir()
    jobs = [json.loads(path.read_text()) for path in run.glob("jobs/*/job_meta.json")]
    assert {(job["image"]["family"], job["integrity"]) for job in jobs} == {("core+hill-climb", "protected")}
    rows = [json.loads(path.read_text()) for path in run.glob("jobs/*/results.json")]
    assert all(row["score_best"] > row["score_initial"] for row in rows) and len(rows) == 2
    lock = json.loads((run / "meta" / "lock.json").read_text())
    assert lock["images"]["core+hill-climb"]["plugins"] == {"hill-climb": "0.1.0"} and len(lock["images"]) == 1
    said = in_image(lock["images"]["core+hill-climb"]["ref"], "hill_climb")
    # No process but the training phase finds them, which looks in that folder.
    assert said.startswith("None\n['trace_bench'] ['.keep', 'hill_climb'] "), said

    command = (*run_it, "--run-id", run.name)
    again = host.trace_bench(*command)
    assert again.stderr.count("reused") == 2, again.stderr
    source = host.folder / "hill_climb" / "hill_climb" / "__init__.py"
    source.write_text(source.read_text() + "\n# another line\n")
    refused = host.trace_bench(*command, "--no-build")
    assert refused.returncode == 3 and refused.stderr.count("\n") == 1
    assert "but its trainer package changed since; run `trace-bench images build core+hill-climb`" in refused.stderr
    fresh = host.trace_bench(*command)
    assert fresh.returncode == 0 and "reused" not in fresh.stderr, "a result of the old code is not that of the new"
    assert (
        "changed since that image was built; building it again\nbuilding trace-bench/core__hill-climb:" in fresh.stderr
    )
    keys = {json.loads(path.read_text())["image"]["key"] for path in run.glob("jobs/*/job_meta.json")}
    assert len(keys) == 1 and keys.isdisjoint(job["image"]["key"] for job in jobs)
    assert "building" not in host.trace_bench(*command).stderr


@pytest.mark.slow
@pytest.mark.docker
def test_layers_and_requirements_of_a_package_are_in_its_images(host: Host) -> None:
    config = {"tasks": ["internal:numeric_param"], "trainers": ["Layered", "Pinned"], "runs_dir": "others"}
    (host.folder / "others.json").write_text(json.dumps(config))
    done = host.trace_bench("run", "--config", "others.json", "--json")
    result = result_of(done.stdout)
    assert [(row["status"], row["score_best"]) for row in result["jobs"]] == [("ok", -0.25)] * 2, done.stderr
    run = next((host.folder / "others").iterdir())
    families = {
        meta["trainer_id"]: meta["image"]["family"]
        for meta in (json.loads(path.read_text()) for path in run.glob("jobs/*/job_meta.json"))
    }
    assert families == {"Layered": "core+gepa+acme-search", "Pinned": "core+acme-search"}
    shown = host.trace_bench("images", "list")
    assert "package acme-search 3.2.1" in shown.stdout
    verified = host.trace_bench("images", "verify", *families.values())
    assert verified.returncode == 0, verified.stderr


@pytest.mark.slow
@pytest.mark.docker
def test_an_image_holds_the_files_of_the_package_and_no_metadata(host: Host) -> None:
    pin = host.trace_bench("images", "build", "core+acme-search", "--json")
    (built,) = json.loads(pin.stdout)
    said = in_image(built["ref"], "acme_search")
    assert said.startswith("None\n['trace_bench'] ['.keep', 'acme_search'] "), said
    assert "'pins.txt'" in said and "'__pycache__'" in said


def _edited(host: Host, change: Callable[[Path], Any]) -> Done:
    """What building says once `change` was made to the installed package, which is put back afterwards."""
    (site,) = (host.folder / "venv").glob("lib/python3*/site-packages")
    kept = host.folder / "kept"
    shutil.copytree(site / "acme_search", kept)
    record = next(site.glob("acme_search-*.dist-info")) / "RECORD"
    lines = record.read_text()
    try:
        change(site)
        return host.trace_bench("images", "build", "core+acme-search")
    finally:
        shutil.rmtree(site / "acme_search")
        kept.rename(site / "acme_search")
        record.write_text(lines)


def _compiled(site: Path) -> None:
    (site / "acme_search" / "fast.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\x7fELF")
    with (next(site.glob("acme_search-*.dist-info")) / "RECORD").open("a") as record:
        record.write("acme_search/fast.cpython-311-x86_64-linux-gnu.so,,\n")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (_compiled, 2, "the package acme-search is not pure Python (acme_search/fast.cpython-311"),
        (lambda site: (site / "acme_search/pins.txt").unlink(), 2, "names requirements 'pins.txt', but there is no"),
        (
            lambda site: (site / "acme_search/pins.txt").write_text(f"trace-opt==0.1 --hash=sha256:{'0' * 64}\n"),
            2,
            "pins trace-opt==0.1, but 0.1.3.8 is what core has",
        ),
        (lambda site: (site / "acme_search/pins.txt").write_text("gepa\n"), 3, "'gepa' is not pinned with hashes"),
    ],
)
def test_what_cannot_go_into_an_image_is_one_sentence(
    host: Host, change: Callable[[Path], Any], code: int, said: str
) -> None:
    done = _edited(host, change)
    assert (done.returncode, done.stderr.count("error: ")) == (code, 1), done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.docker
def test_what_is_not_installed_here_is_listed_and_refused(host: Host) -> None:
    """The environment of the tests has no trainer of the how-to, whose image an earlier test has built."""
    from tests.integration.cli import cli

    listed = cli("images", "list", home=host.home)
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("core+hill-climb\t")]
    assert line.endswith("\twhat it adds is not installed here")
    done = cli("images", "verify", "core+hill-climb", home=host.home)
    assert done.returncode == 2 and "'hill-climb' is neither a layer" in done.stderr
