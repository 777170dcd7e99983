"""What ships with the package, and what plugs into it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_bench.resources import files_below, plug_ins


def test_plug_ins_are_found_by_group_and_sorted() -> None:
    names = [point.name for point in plug_ins("trace_bench.suites")]
    assert {"internal", "llm4ad", "trace_examples"} <= set(names) and names == sorted(names)
    assert plug_ins("trace_bench.nothing") == []


def test_a_package_on_a_path_added_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plug_ins("trace_bench.later") == []
    info = tmp_path / "later-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trace_bench.later]\nx = later:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [point.value for point in plug_ins("trace_bench.later")] == ["later:X"]


HEAVY = ("docker", "requests", "pydantic", "rich.console", "jsonschema", "yaml")


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        (["list-tasks"], ("docker", "requests", "rich.console", "jsonschema", "yaml")),
    ],
)
def test_a_command_imports_only_what_it_needs(words: list[str], absent: tuple[str, ...]) -> None:
    program = (
        "import sys, trace_bench.cli as cli\n"
        f"sys.argv[1:] = {words!r}\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        f"print('imported:', [name for name in {absent!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_a_run_does_not_import_what_only_other_models_need() -> None:
    absent = ("asyncio", "litellm", "trace_bench.gateway.provider_process", "trace_bench.gateway.scripted")
    program = (
        "import sys, trace_bench.cli.run\n"
        "from trace_bench.config import parse_config\n"
        "from trace_bench.execution.providers import providers_of\n"
        "from trace_bench.planning.scripts import with_scripts\n"
        "config = {'tasks': ['internal:numeric_param'], 'trainers': ['NoOp'], 'mode': 'stub'}\n"
        "with providers_of(with_scripts(parse_config(config)), {}): pass\n"
        f"print('imported:', [name for name in {absent!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_rendering_for_a_pipe_does_not_import_rich() -> None:
    program = (
        "import sys; from trace_bench.analysis.leaderboard_table import leaderboard_lines; leaderboard_lines([])\n"
        "print('rich.console' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_files_below_finds_files_of_all_depths_and_no_linked_folder(tmp_path: Path) -> None:
    for name in ("top.py", "a/b/deep.py", "a/.hidden"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.py").write_text("")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    assert sorted(files_below(tmp_path / "root")) == ["a/.hidden", "a/b/deep.py", "top.py"]
