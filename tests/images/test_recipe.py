"""A key identifies contents, and nothing but contents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.images.conftest import TOP, Checkout, copy_checkout
from trace_bench.errors import ConfigError
from trace_bench.images.recipe import (
    PARTS,
    dependencies_key,
    image_key,
    load_families,
    worker_sources,
    worker_sources_hash,
)

_KEY = "answer = recipe.image_key(layers.family_named('core').recipe, 'packages:0')"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    shutil.copytree(TOP / "images", tmp_path / "images")
    return tmp_path / "images"


def test_shipped_families_stand_on_each_other() -> None:
    families = load_families()
    assert [f.name for f in families["llm4ad"].lineage] == ["base", "core", "llm4ad"]
    assert families["llm4ad"].arguments == {"PRELOAD": "numpy"}
    assert families["core"].arguments == {"PRELOAD": ""}


def test_key_is_the_same_for_copies_with_other_times_and_modes(tmp_path: Path) -> None:
    first = copy_checkout(tmp_path / "one", tmp_path / "home")
    second = copy_checkout(tmp_path / "a" / "longer" / "path", tmp_path / "home")
    for path in second.folder.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o600)
    assert first.python(_KEY) == second.python(_KEY)


@pytest.mark.parametrize(
    "name",
    [
        "images/core/Dockerfile",
        "images/base/Dockerfile",
        "images/worker.Dockerfile",
        "images/core/requirements.txt",
        "images/bootstrap.txt",
        "trace_bench/worker/problem.py",
    ],
)
def test_key_changes_with_each_input(checkout: Checkout, name: str) -> None:
    before = checkout.python(_KEY)
    checkout.edit(name)
    assert checkout.python(_KEY) != before


@pytest.mark.parametrize("name", ["trace_bench/resources.py", "images/llm4ad/requirements.txt"])
def test_key_ignores_what_is_not_in_the_image(checkout: Checkout, name: str) -> None:
    before = checkout.python(_KEY)
    checkout.edit(name)
    assert checkout.python(_KEY) == before


def test_key_changes_with_the_packages_of_debian(images: Path) -> None:
    before = load_families(images)["core"]
    (images / "core" / "debian.txt").write_text("g++\n")
    after = load_families(images)["core"]
    assert before.debian is None and after.debian == images / "core" / "debian.txt"
    assert image_key(after.recipe, "x") != image_key(before.recipe, "x")
    assert dependencies_key(after, "x") != dependencies_key(before, "x")


def test_key_changes_with_base_and_with_preload(images: Path) -> None:
    recipe = load_families(images)["core"].recipe
    assert image_key(recipe, "packages:0") != image_key(recipe, "packages:1")
    (images / "core" / "family.toml").write_text('title = "x"\nparent = "base"\npreload = ["json"]\n')
    changed = load_families(images)["core"].recipe
    assert image_key(changed, "packages:0") != image_key(recipe, "packages:0")
    assert [p for p in PARTS if changed.parts("x").get(p) != recipe.parts("x").get(p)] == ["arguments"]


def test_worker_sources_leave_out_byte_code_and_hidden_files(tmp_path: Path) -> None:
    package = tmp_path / "trace_bench"
    shutil.copytree(TOP / "trace_bench", package)
    before = worker_sources_hash(package)
    (package / "worker" / "__pycache__").mkdir(exist_ok=True)
    (package / "worker" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"0")
    (package / "worker" / ".problem.py.swp").write_bytes(b"0")
    assert worker_sources_hash(package) == before
    assert "worker/problem.py" in worker_sources(package)
    (package / "worker" / "problem.py").rename(package / "worker" / "renamed.py")
    assert worker_sources_hash(package) != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('title = "x"\nbase = "y"\n', "unknown key 'base'"),
        ("preload = []\n", "title must be a text"),
        ('title = "x"\npreload = ["os; import evil"]\n', "preload must be a list of module names"),
        ('title = "x"\nparent = "nobody"\n', "parent 'nobody' is no family"),
        ('title = "x"\nparent = "llm4ad"\n', "makes a circle"),
        ("title = \n", "Invalid value"),
    ],
)
def test_a_wrong_family_is_one_sentence_with_its_file(images: Path, text: str, said: str) -> None:
    (images / "core" / "family.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_families(images)
    assert said in str(caught.value)
    assert "family.toml" in str(caught.value)


def test_requirements_are_hashed_and_name_no_index() -> None:
    files = [*TOP.glob("images/**/*.txt"), *TOP.glob("requirements/*.txt")]
    assert len(files) >= 8
    for path in files:
        text = path.read_text("utf-8")
        assert "://" not in text and "--index" not in text and "--find-links" not in text, path
        assert text.count("==") <= text.count("--hash=sha256:"), path
