"""A layer adds packages to a family, and changes none of what it stands on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import TOP, Checkout
from tests.images.test_build import inside
from trace_bench.errors import ConfigError
from trace_bench.images.layers import added_pins, family_named, load_layers
from trace_bench.images.recipe import dependencies_key, image_key, load_families
from trace_bench.images.wheels import Target, read_pins

LAYERS = sorted(load_layers(TOP / "images"))
TARGETS = [Target(python, machine, "2.36") for python in ("3.11", "3.12", "3.13") for machine in ("x86_64", "aarch64")]
HERE = TARGETS[0]
HASH = f" --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A copy of the recipes with a layer of the test's own, `more`."""
    shutil.copytree(TOP / "images", tmp_path / "images")
    folder = tmp_path / "images" / "layers" / "more"
    folder.mkdir()
    (folder / "layer.toml").write_text('title = "More"\npreload = ["json"]\n')
    (folder / "requirements.txt").write_text(f"something==1.0{HASH}")
    return tmp_path / "images"


def test_a_layer_stands_on_any_family(images: Path) -> None:
    family = family_named("llm4ad+more", images)
    assert [f.name for f in family.lineage] == ["base", "core", "llm4ad", "llm4ad+more"]
    assert family.arguments == {"PRELOAD": "numpy,json"}
    assert family.dockerfile == images / "layers" / "Dockerfile"
    assert family.repository == "trace-bench/llm4ad__more"
    assert [pin.name for pin in added_pins(family, HERE)] == ["something"]
    assert [f.name for f in family_named("core+gepa+more", images).lineage][2:] == ["core+gepa", "core+gepa+more"]


def test_a_layer_may_have_a_dockerfile_of_its_own(images: Path) -> None:
    before = family_named("core+more", images).recipe
    own = images / "layers" / "more" / "Dockerfile"
    own.write_text("FROM scratch\n")
    assert family_named("core+more", images).dockerfile == own
    assert family_named("core+more", images).recipe.dockerfile != before.dockerfile


@pytest.mark.parametrize(("layer", "family"), [*itertools.product(LAYERS, sorted(load_families()))])
def test_what_ships_changes_no_package_of_what_it_stands_on(
    layer: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opto").mkdir()
    (tmp_path / "opto" / "__init__.py").touch()
    monkeypatch.setenv("OPENTRACE", str(tmp_path))
    for target in TARGETS:
        added_pins(family_named(f"{family}+{layer}"), target)


def test_another_version_of_what_is_there_is_refused(images: Path) -> None:
    path = images / "layers" / "more" / "requirements.txt"
    path.write_text(f"NumPy==1.26.4{HASH}")
    added_pins(family_named("core+more", images), HERE)
    with pytest.raises(ConfigError, match=r"pins NumPy==1\.26\.4, but 2\.4\.6 is what llm4ad has"):
        added_pins(family_named("llm4ad+more", images), HERE)


def test_what_is_there_is_not_installed_again(images: Path) -> None:
    numpy = next(pin for pin in read_pins(images / "llm4ad" / "requirements.txt") if pin.name == "numpy")
    path = images / "layers" / "more" / "requirements.txt"
    path.write_text(f"numpy=={numpy.version}{HASH}something==1.0{HASH}")
    assert [pin.name for pin in added_pins(family_named("core+more", images), HERE)] == ["numpy", "something"]
    assert [pin.name for pin in added_pins(family_named("llm4ad+more", images), HERE)] == ["something"]


def test_pins_for_other_targets_are_left_out(images: Path) -> None:
    path = images / "layers" / "more" / "requirements.txt"
    path.write_text(
        f"on-windows==1.0 ; sys_platform == 'win32'{HASH}older==1.0 ; python_full_version < '3.12' \\\n   {HASH}"
        f"on-arm==2.0 ; platform_machine == 'aarch64'{HASH}always==1.0{HASH}"
    )
    family = family_named("core+more", images)
    found = [[pin.name for pin in added_pins(family, target)] for target in (TARGETS[0], TARGETS[3])]
    assert found == [["older", "always"], ["on-arm", "always"]]


def test_the_key_changes_with_the_layer_and_the_familys_does_not(images: Path) -> None:
    def keys() -> tuple[str, str, str]:
        one = family_named("core+more", images)
        return image_key(one.recipe, "x"), dependencies_key(one, "x"), image_key(one.lineage[1].recipe, "x")

    before = keys()
    (images / "layers" / "more" / "requirements.txt").write_text(f"something==2.0{HASH}")
    after = keys()
    assert before[0] != after[0] and before[1] != after[1] and before[2] == after[2]
    assert "plugins" not in family_named("core+more", images).recipe.parts("x")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nobody+gepa",
            "unknown image family 'nobody'; choose one of base, core, kernelbench-cpu, kernelbench-cuda, lean, llm4ad",
        ),
        ("core+nobody", r"'nobody' is neither a layer \(.*gepa.*\) nor an installed package with trainers"),
        ("core+gepa+gepa", "names an addition twice"),
        ("core+", "'' is neither a layer"),
    ],
)
def test_what_is_no_family_is_one_sentence(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        family_named(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("preload = []\n", "title must be a text"), ('title = "x"\nparent = "core"\n', "unknown key 'parent'; it knows")],
)
def test_a_wrong_layer_is_one_sentence_with_its_file(images: Path, text: str, said: str) -> None:
    place = images / "layers" / "more" / "layer.toml"
    place.write_text(text)
    with pytest.raises(ConfigError) as caught:
        family_named("core+gepa", images)
    assert said in str(caught.value) and str(place) in str(caught.value)


@pytest.mark.slow
@pytest.mark.docker
def test_a_layer_is_built_listed_and_verified(
    engine: Any, built: tuple[Checkout, dict[str, Any]], remove_later: Callable[[str], None]
) -> None:
    checkout, core = built
    pin = checkout.call("build.build", "core+gepa")
    assert "error" not in pin, pin
    remove_later(pin["ref"])
    assert pin["ref"] == f"trace-bench/core__gepa:{pin['key'][:12]}" and pin["key"] != core["key"]
    code = "import gepa, opto, trace_bench.worker\nanswer = [m.__file__ for m in (gepa, opto, trace_bench)]"
    assert inside(engine, pin["ref"], code) == [
        "/opt/trace-bench/site/gepa/__init__.py",
        "/opt/trace-bench/site/opto/__init__.py",
        "/opt/trace-bench/lib/trace_bench/__init__.py",
    ]
    assert checkout.call("pins.ensure", "core+gepa", allow_build=False) == pin
    assert checkout.call("pins.verify", "core+gepa") == pin
    shown = checkout.python(
        """
import pathlib
home = pathlib.Path(os.environ["TRACE_BENCH_TEST_HOME"])
answer = [[s.family, s.pin is not None, s.present, s.drift] for s in pins.list_images(home=home)]"""
    )
    assert shown[1:3] == [["core", True, True, []], ["core+gepa", True, True, []]]
