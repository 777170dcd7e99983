"""Which files of an installed distribution go into an image, and what is refused."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.images.context import worker_context
from trace_bench.images.layers import family_named
from trace_bench.images.plugins import plugin_named
from trace_bench.images.recipe import image_key
from trace_bench.matrix import image_family
from trace_bench.planning.images import image_source
from trace_bench.sandbox.local import LocalBackend
from trace_bench.trainers.registry import GROUP, additions_of, load_trainer

TRAINER = """
class Mine:
    name, summary, source, params = "Mine", "x", "y", ()
    uses_llm = uses_graph = False
    def search(self, search): yield from ()
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Writes a distribution as pip would leave it, and returns the folder that it was installed into."""
    site = tmp_path / "site"

    def installed(
        files: dict[str, str], *, entry: str = "mine.search:Mine", record: tuple[str, ...] = (), name: str = "Some.Mine"
    ) -> Path:
        info = site / "mine-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\nMine = {entry}\n")
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        recorded = [*(record or files), f"{info.name}/METADATA", f"{info.name}/entry_points.txt"]
        (info / "RECORD").write_text("".join(f"{line},,\n" for line in recorded))
        for module in [m for m in sys.modules if m.partition(".")[0] in ("mine", "elsewhere")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        return site

    return installed


PACKAGE = {"mine/__init__.py": "", "mine/search.py": TRAINER, "mine/data/words.txt": "a\n"}


def test_what_was_installed_goes_in_without_metadata_scripts_and_byte_code(install: Install) -> None:
    more = {"mine/__pycache__/search.cpython-311.pyc": "", "mine_more.py": "", "mine-1.0.data/x": ""}
    site = install({**PACKAGE, **more}, record=(*PACKAGE, *more, "../../bin/mine", "mine.pth", "mine/gone.py"))
    plugin = plugin_named("some-mine")
    assert plugin is not None and (plugin.name, plugin.version, plugin.requirements) == ("some-mine", "1.0", ())
    assert list(plugin.files) == ["mine-1.0.data/x", *sorted(PACKAGE), "mine_more.py"]
    family = family_named("core+some-mine")
    assert family.plugin_versions == {"some-mine": "1.0"}
    assert worker_context(family)["plugins/mine/search.py"] == site / "mine" / "search.py"
    assert "worker/trace_bench/errors.py" in worker_context(family)


@pytest.mark.parametrize("record", [("_mine.pth",), ("__editable___mine_finder.py", "__editable__.mine.pth")])
def test_of_an_editable_installation_the_trainers_package_goes_in(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: tuple[str, ...]
) -> None:
    install({}, record=record)
    for path, text in {**PACKAGE, "mine/.hidden": "", "other/__init__.py": ""}.items():
        target = tmp_path / "work" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "work"))
    plugin = plugin_named("some-mine")
    assert plugin is not None and list(plugin.files) == sorted(PACKAGE)
    assert plugin.files["mine/search.py"] == tmp_path / "work" / "mine" / "search.py"


def test_a_single_module_is_a_package_too(install: Install) -> None:
    install({"mine.py": TRAINER}, entry="mine:Mine", record=("_mine.pth",))
    plugin = plugin_named("some-mine")
    assert plugin is not None and list(plugin.files) == ["mine.py"]


def test_key_and_fingerprint_change_with_the_files(install: Install) -> None:
    site = install(PACKAGE)

    def keys() -> list[str]:
        config = RunConfig.model_validate({"tasks": [{"id": "internal:numeric_param"}]})
        local = image_source(config, LocalBackend(), build=False, say=print, warn=print)
        family = family_named("core+some-mine")
        return [image_key(family.recipe, "x"), local("core+some-mine").key, image_key(family.lineage[1].recipe, "x")]

    before = keys()
    (site / "mine" / "data" / "words.txt").write_text("b\n")
    after = keys()
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]
    (site / "mine" / "data" / "words.txt").write_text("a\n")
    assert keys() == before


def test_a_trainers_image_is_that_of_the_task_with_layer_and_package(install: Install) -> None:
    install({**PACKAGE, "mine/search.py": TRAINER + "    layer = 'gepa'\n"})
    additions = additions_of("Mine", load_trainer("Mine"))
    assert additions == ("gepa", "some-mine")
    assert image_family("llm4ad", additions) == "llm4ad+gepa+some-mine"
    assert image_family("core+gepa", additions) == "core+gepa+some-mine"
    assert additions_of("NoOp", load_trainer("NoOp")) == () and image_family("core", ()) == "core"


@pytest.mark.parametrize(
    ("files", "entry", "said"),
    [
        ({"mine/search.py": TRAINER}, "mine.search:Mine", "mine is a namespace that several packages may share"),
        ({"opto/mine.py": TRAINER}, "opto.mine:Mine", "brings a module 'opto', which images have; rename it"),
        ({**PACKAGE, "mine/fast.pyd": ""}, "mine.search:Mine", r"is not pure Python \(mine/fast.pyd\)"),
        ({**PACKAGE, "mine/libfast.so.1": ""}, "mine.search:Mine", r"is not pure Python \(mine/libfast.so.1\)"),
    ],
)
def test_what_cannot_go_into_an_image_is_refused(
    install: Install, files: dict[str, str], entry: str, said: str
) -> None:
    install(files, entry=entry, record=("_mine.pth",) if len(files) == 1 else ())
    with pytest.raises(ConfigError, match=said) as caught:
        family_named("core+some-mine")
    assert "\n" not in str(caught.value)


def test_a_package_may_not_have_the_name_of_a_layer(install: Install) -> None:
    install(PACKAGE, name="gepa")
    with pytest.raises(ConfigError, match="the installed package gepa has the name of an image layer"):
        family_named("core+gepa")


def test_a_package_without_trainers_is_none(install: Install) -> None:
    install(PACKAGE)
    assert plugin_named("numpy") is None and plugin_named("nobody") is None
