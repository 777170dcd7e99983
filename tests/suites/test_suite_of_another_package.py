"""A suite of another package brings tasks, a table and a format of its own, data, a service and results. Nothing of
Trace-Bench names it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.integration.cli import cli
from tests.suites.test_registry import install
from trace_bench.analysis.suite_tables import suite_tables
from trace_bench.config import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.execution.service_host import load_services
from trace_bench.planning.completion import complete_config
from trace_bench.planning.data_sets import needed
from trace_bench.suites.catalog import Catalog
from trace_bench.suites.installed import GROUP
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.task_files import pack_task

SUITE = """
import json
import os
from dataclasses import dataclass
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.suites.base import Suite
from trace_bench.suites.service import ServiceAnswer
from trace_bench.suites.tables import SuiteTable

HERE = Path(os.environ["BAKERY"])
COMMON = {
    "interaction": "value",
    "score": {"direction": "maximize", "failure": 0.0},
    "eval_kwargs": {"fixture": {"type": "bool", "default": False}},
}


@dataclass(frozen=True)
class Copy:
    name: str = "flour"
    revision: str = "r1"
    fetched: str = "2026-01-01"
    licence: str = "MIT"
    rows: int = 2
    size: int = 10

    @property
    def splits(self):
        return {"all": self}

    def damaged(self):
        return []


@dataclass(frozen=True)
class Flour:
    tasks: tuple[str, ...]
    name: str = "flour"
    splits: tuple[str, ...] = ("all",)
    licence: str = "MIT"
    cite: str = ""

    def copy(self):
        return Copy() if (HERE / "flour").exists() else None

    def fetch(self, *, mirror, revision, say):
        (HERE / "flour").write_text("wheat")
        return Copy()

    def take(self, folder, *, say):
        raise ConfigError("no copies")


class Oven:
    name = "oven"
    at_once = 1
    request_schema = {"type": "object", "properties": {"recipe": {"type": "string"}}, "required": ["recipe"]}
    answer_schema = {"type": "object", "properties": {"taste": {"type": "number"}}, "required": ["taste"]}

    def check(self):
        return "hot"

    def answer(self, call):
        return self.stub(call.request)

    def stub(self, request):
        return ServiceAnswer({"taste": 0.5})

    def sweep(self, label):
        return []

    def left(self, label, name):
        return set()

    def close(self):
        pass


class Bakery(Suite):
    def reads(self, path):
        return path.suffix == ".cake"

    def tasks_in(self, folder, name, content):
        for file in content:
            if file.endswith(".cake"):
                yield f"{name}/{file.removesuffix('.cake')}", folder / file

    def described(self, path):
        return self.completed({"title": path.stem, "statement": "Bake.", "cake": {"eggs": 2}}, path.parent)

    def members(self, path):
        return [("recipe.cake", path)]

    def completed(self, raw, folder):
        if not isinstance(raw["cake"].get("eggs"), int):
            raise ConfigError(f"{folder}: cake.eggs must be an integer")
        return {**COMMON, **raw}

    def needed_files(self, raw):
        return ["problem.py", "recipe.txt"]

    def data_sets(self, tasks):
        names = tuple(name for name, _ in tasks)
        return [Flour(names)] if names else []

    def data_files(self, raw, *, fetched):
        there = fetched and (HERE / "flour").exists()
        return (("data/flour.txt", b"wheat" if there else b"a spoon of wheat"),)

    def data_copies(self):
        return [Copy()] if (HERE / "flour").exists() else []

    def table_of(self, jobs, statistics):
        mean = statistics.mean(list(jobs["task_id"]), list(jobs["score_best"]))
        rows = [[f"{mean.mean:g}"]]
        return SuiteTable("cakes", "Cakes", "The mean score.", ["score"], rows, fields={"cakes": mean.mean})


SUITE = Bakery(
    name="bakery",
    title="Cakes",
    image="core",
    root=str(HERE / "tasks"),
    builder="trace_bench.suites.task_builder:build",
    tables=("cake",),
    services=("a_bakery:Oven",),
)
"""
PROBLEM = """
from trace_bench.worker.problem import Example, Parameter, Problem


class Guide:
    def __init__(self, services, eggs):
        self.services, self.eggs = services, eggs

    def __call__(self, query, response, reference):
        taste = self.services.ask("oven", {"recipe": str(response)})["taste"]
        return taste + self.eggs, "Baked."


def build(context):
    flour = (context.task_dir / "data" / "flour.txt").read_text()
    return Problem(
        parameters=(Parameter(name="recipe", value=flour, kind="text", description="A recipe"),),
        guide=Guide(context.services, context.spec["cake"]["eggs"]),
        train=(Example(id="one"),),
        objective="Bake.",
        direction="maximize",
        failure_score=0.0,
    )
"""
TASK = 'title = "Plain"\nstatement = "Bake."\n\n[cake]\neggs = 3\n'


@pytest.fixture
def bakery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    install(site, GROUP, "bakery = a_bakery:SUITE", {"a_bakery": SUITE})
    folder = tmp_path / "tasks" / "plain"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TASK)
    (folder / "recipe.txt").write_text("Mix.")
    (folder / "problem.py").write_text(PROBLEM)
    monkeypatch.setenv("BAKERY", str(tmp_path))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "a_bakery", raising=False)
    return tmp_path


def outside(bakery: Path, *arguments: str) -> Any:
    return cli(*arguments, PYTHONPATH=os.pathsep.join([str(bakery / "site"), os.environ.get("PYTHONPATH", "")]))


def test_its_tables_and_formats_are_read(bakery: Path) -> None:
    (bakery / "more" / "sweet").mkdir(parents=True)
    cake = bakery / "more" / "sweet" / "sponge.cake"
    cake.write_text("Stir.")
    catalog = Catalog([bakery / "more"])
    assert set(catalog.entries(["bakery:x"])) == {"bakery:plain", "bakery:sweet/sponge"}
    entry = catalog.find("bakery:sweet/sponge")
    assert entry is not None and catalog.spec(entry).raw["cake"] == {"eggs": 2}
    assert b"Stir." in pack_task(entry.folder) and catalog.spec(entry) is catalog.spec(entry)
    toml = bakery / "tasks" / "plain" / "task.toml"
    for text, message in (
        (TASK.replace("3", "'three'"), "cake.eggs must be an integer"),
        (TASK.replace("[cake]\neggs = 3\n", "cake = 3\n"), "cake must be a table, not the number 3"),
    ):
        toml.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_task_spec(toml.parent)
    toml.write_text(TASK)
    (toml.parent / "recipe.txt").unlink()
    with pytest.raises(ConfigError, match=r"the task folder has no recipe\.txt"):
        load_task_spec(toml.parent)


def test_its_data_are_missing_then_fetched(bakery: Path) -> None:
    data = {"tasks": ["bakery:plain"], "trainers": ["NoOp"], "seeds": [1]}
    complete = complete_config(parse_config(data, {}, file="c"))
    assert complete.config.tasks[0].eval_kwargs == {"fixture": True} and "bakery:plain" in complete.config.warnings[0]
    asked = complete_config(parse_config({**data, "eval_kwargs": {"fixture": False}}, {}, file="c"))
    assert "trace-bench data fetch bakery:plain (or set" in str(
        resolve(asked.config, asked.catalog).lost["bakery:plain"]
    )
    assert needed(asked.config) == ["bakery:plain"]
    done = outside(bakery, "data", "fetch", "bakery:all")
    assert done.returncode == 0 and done.stdout.startswith("flour: all 2 rows"), done.stderr
    listed = json.loads(outside(bakery, "data", "list", "--json").stdout)
    assert [(row["title"], row["state"]) for row in listed if row["name"] == "flour"] == [("bakery:plain", "ok")]
    resolved = resolve(asked.config, asked.catalog)
    assert not resolved.lost and resolved.tasks["bakery:plain"].data == (("data/flour.txt", b"wheat"),)


def test_its_service_and_its_table_are_used(bakery: Path) -> None:
    suite = Catalog().suites["bakery"]
    assert [service.check() for service in load_services(suite.services).values()] == ["hot"]
    jobs = pd.DataFrame({"suite": ["bakery", "bakery"], "task_id": ["bakery:a", "bakery:b"], "score_best": [1.0, 2.0]})
    (table,) = suite_tables(jobs, [True, True])
    assert table.rows == [["1.5"]] and table.fields == {"cakes": 1.5}


def test_its_jobs_run_and_its_results_are_printed(bakery: Path) -> None:
    runs = bakery / "runs"
    done = outside(bakery, "run", "-t", "bakery:plain", "-T", "NoOp", "--backend", "local", "--runs-dir", str(runs))
    assert done.returncode == 0, done.stderr
    shown = outside(bakery, "results", "latest", "--runs-dir", str(runs), "--unprotected", "--json")
    assert json.loads(shown.stdout)["cakes"] == 3.5, shown.stderr
