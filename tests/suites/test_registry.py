"""Suites and tasks are found by walking folders, and unknown names are answered with the nearest known ones."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import data_dir
from trace_bench.suites import registry
from trace_bench.suites.installed import GROUP, load_suites
from trace_bench.suites.registry import discover, normalise_id, resolve, suite_names


def make_task(folder: Path, text: str = 'title = "x"\n') -> Path:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(text)
    return folder


def install(site: Path, group: str, entries: str, modules: dict[str, str]) -> None:
    """A plug-in as `pip` would leave it in `site`: modules and metadata with entry points."""
    info = site / "a_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
    for name, source in modules.items():
        (site / f"{name}.py").write_text(source)


def test_the_built_in_suites_and_the_reserved_names_are_known() -> None:
    assert {"internal", "trace_examples", "llm4ad"} <= set(load_suites())
    assert set(suite_names()) >= {
        "internal",
        "trace_examples",
        "llm4ad",
        "hf",
        "kernelbench",
        "veribench",
        "terminal_bench",
        "rollouts",
    }


def test_the_shipped_tasks_are_listed_with_their_folders() -> None:
    entries = {entry.id: entry for entry in discover()}
    assert set(entries) >= {
        "internal:numeric_param",
        "internal:code_param",
        "trace_examples:greeting_stub",
        "llm4ad:circle_packing",
        "llm4ad:optimization/online_bin_packing",
    }
    for entry in entries.values():
        assert (entry.folder / "task.toml").is_file() and entry.id.startswith(f"{entry.suite}:")
    assert list(entries) == sorted(entries)


def test_suites_without_tasks_are_known_and_empty() -> None:
    for name in registry.SUITES_WITHOUT_TASKS:
        assert discover([name]) == []
    assert {e.suite for e in discover(["internal", "rollouts"])} == {"internal"}


def test_an_unknown_suite_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="there is no suite 'interal'; did you mean 'internal'"):
        discover(["interal"])


@pytest.mark.parametrize(
    ("written", "task_id"),
    [
        ("circle_packing", "llm4ad:circle_packing"),
        ("optimization/online_bin_packing", "llm4ad:optimization/online_bin_packing"),
        ("example:greeting_stub", "trace_examples:greeting_stub"),
        ("internal:numeric_param", "internal:numeric_param"),
        (" internal:numeric_param ", "internal:numeric_param"),
    ],
)
def test_ids_are_resolved_in_every_way_of_writing_them(written: str, task_id: str) -> None:
    assert normalise_id(written) == task_id == resolve(written).id


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("circle_pack", "did you mean 'llm4ad:circle_packing'?"),
        ("llm4ad:online_bin_packing_loca", "did you mean 'llm4ad:online_bin_packing_local'?"),
        ("numeric_param", "did you mean 'internal:numeric_param'?"),
        ("example:greting_stub", "did you mean 'trace_examples:greeting_stub'?"),
        ("nosuch:thing", "there is no suite 'nosuch'"),
        (
            "internal:qqqqzzzz",
            "'trace-bench tasks --bench internal' lists what there is, --root FOLDER adds tasks of",
        ),
        ("internal:../internal/numeric_param", "there is no task"),
    ],
)
def test_unknown_ids_are_answered_with_the_nearest(written: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(written)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_a_foreign_root_holds_internal_tasks_unless_they_say_otherwise(tmp_path: Path) -> None:
    make_task(tmp_path / "mine")
    make_task(tmp_path / "deep" / "er" / "one", "# first\nsuite = 'trace_examples' # here\ntitle = 'x'\n")
    make_task(tmp_path / "two", "title = 'x'\n[score]\nsuite = 'llm4ad'\n")
    (tmp_path / "no_task").mkdir()
    found = {e.id: e.folder for e in discover(roots=[tmp_path]) if tmp_path in e.folder.parents}
    assert found == {
        "internal:mine": tmp_path / "mine",
        "trace_examples:deep/er/one": tmp_path / "deep" / "er" / "one",
        "internal:two": tmp_path / "two",
    }
    assert resolve("internal:mine", [tmp_path]).folder == tmp_path / "mine"


def test_a_task_folder_itself_may_be_the_root(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "lonely")
    assert resolve("internal:lonely", [folder]).folder == folder


def test_a_foreign_root_with_an_unknown_suite_is_refused(tmp_path: Path) -> None:
    make_task(tmp_path / "mine", 'suite = "interal"\n')
    with pytest.raises(ConfigError, match=r"task.toml: there is no suite 'interal'; did you mean 'internal'"):
        discover(roots=[tmp_path])


def test_an_llm4ad_root_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    root = tmp_path / "LLM4AD" / "benchmark_tasks"
    make_task(root / "optimization" / "mine")
    ids = [e.id for e in discover(["llm4ad"], [root])]
    assert ids == ["llm4ad:optimization/mine"]
    shipped = data_dir("benchmarks") / "LLM4AD" / "benchmark_tasks"
    assert discover(["llm4ad"], [shipped]) == discover(["llm4ad"])


def test_one_id_in_two_folders_is_an_error_that_names_both(tmp_path: Path) -> None:
    make_task(tmp_path / "numeric_param")
    with pytest.raises(
        ConfigError, match=r"'internal:numeric_param' lies in two folders, .*numeric_param and .*; rename"
    ):
        discover(["internal"], [tmp_path])
    assert discover(["internal"], [data_dir("benchmarks") / "internal"]) == discover(["internal"])


@pytest.mark.parametrize(("name", "part"), [("missing", "does not exist"), ("file", "is not a folder")])
def test_a_root_that_is_no_folder_is_refused(name: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=part):
        discover(roots=[tmp_path / name])


def test_hidden_folders_caches_links_and_folders_inside_tasks_are_no_tasks(tmp_path: Path) -> None:
    make_task(tmp_path / ".hidden")
    make_task(tmp_path / "__pycache__")
    make_task(tmp_path / "real" / "inner")
    (tmp_path / "real" / "task.toml").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [e.id for e in discover(roots=[tmp_path]) if tmp_path in e.folder.parents] == ["internal:real"]


def test_listing_does_not_read_what_a_broken_task_holds(tmp_path: Path) -> None:
    make_task(tmp_path / "broken", "this is = = no TOML\n\x00")
    assert resolve("internal:broken", [tmp_path]).id == "internal:broken"


def test_listing_sixty_five_tasks_takes_less_than_fifty_milliseconds(tmp_path: Path) -> None:
    root = tmp_path / "LLM4AD" / "benchmark_tasks"
    for number in range(65):
        folder = make_task(root / "optimization" / "co_bench" / f"task_{number}")
        for name in ("template.py", "evaluator.py"):
            (folder / name).write_text("")
        (folder / "alternatives").mkdir()
    load_suites()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert len(discover(["llm4ad"], [root])) == 65
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


def test_a_suite_of_a_plug_in_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tasks"
    make_task(root / "one")
    source = (
        "from trace_bench.suites.base import Suite\n"
        f"SUITE = Suite('plugged', 'x', 'core', {str(root)!r}, 'trace_bench.suites.internal.problem:build')\n"
    )
    install(tmp_path / "site", GROUP, "plugged = a_plugged_suite:SUITE", {"a_plugged_suite": source})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert resolve("plugged:one").folder == root / "one"


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("SUITE = 5", "is no Suite"),
        ("1/0", "ZeroDivisionError"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_reason(
    source: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, GROUP, "bad = a_bad_suite:SUITE", {"a_bad_suite": source})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "a_bad_suite", raising=False)
    with pytest.raises(ConfigError, match=rf"suite 'bad' \(a_bad_suite:SUITE\).*{part}.*repair or uninstall"):
        load_suites()


def test_without_an_installed_package_the_sentence_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(EnvironmentUnavailable, match=r"pip install -e \."):
        load_suites()
