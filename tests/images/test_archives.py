"""Archives that a user names are kept with their hash, and are part of an image's key."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from trace_bench.errors import ConfigError
from trace_bench.homes import HOME_VARIABLE
from trace_bench.images.archives import IN_BASE, keep, kept
from trace_bench.images.recipe import load_families


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return tmp_path / "home"


def archive(folder: Path, content: bytes = b"one", name: str = "lean-4.22.0-linux.zip") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_file_is_kept_with_its_hash_and_replaced(tmp_path: Path) -> None:
    assert kept("lean") is None
    found = keep("lean", str(archive(tmp_path)))
    assert found == kept("lean") and found.path.read_bytes() == b"one"
    assert found.sha256 == hashlib.sha256(b"one").hexdigest()
    keep("lean", str(archive(tmp_path, b"two", "other.tar.gz")), hashlib.sha256(b"two").hexdigest().upper())
    again = kept("lean")
    assert again is not None and again.path.name == "other.tar.gz" and again.path.read_bytes() == b"two"


@pytest.mark.parametrize(
    ("name", "sha256", "said"),
    [
        ("missing.zip", None, "no such file"),
        ("lean.tar.zst", None, r"it must end with \.zip"),
        ("lean.zip", "0" * 64, "download it again"),
    ],
)
def test_what_cannot_be_kept_is_one_sentence(name: str, sha256: str | None, said: str, tmp_path: Path) -> None:
    if name != "missing.zip":
        archive(tmp_path, name=name)
    with pytest.raises(ConfigError, match=said):
        keep("lean", str(tmp_path / name), sha256)
    assert kept("lean") is None


def test_the_base_may_have_it() -> None:
    found = keep("lean", IN_BASE)
    assert found.path.name == "base" and found.path.read_bytes() == b""


def test_the_hash_is_part_of_the_recipe(tmp_path: Path) -> None:
    recipes = [load_families()["lean"].recipe]
    for content in (b"one", b"two"):
        keep("lean", str(archive(tmp_path, content)))
        recipes.append(load_families()["lean"].recipe)
    assert len({recipe.requirements for recipe in recipes}) == 3
    assert load_families()["core"].recipe == load_families()["core"].recipe
