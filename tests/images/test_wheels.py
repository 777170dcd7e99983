from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images.wheels import Target, gather, read_pins

TARGET = Target("3.11", "x86_64", "2.36")


def _requirements(folder: Path, content: bytes) -> Path:
    path = folder / "requirements.txt"
    digest = hashlib.sha256(content).hexdigest()
    path.write_text(
        f"# a comment\nno-such.package_of_ours==1.0 \\\n    --hash=sha256:{digest} \\\n    --hash=sha256:{'0' * 64}\n"
    )
    return path


def test_pins_are_read_with_all_their_hashes(tmp_path: Path) -> None:
    (pin,) = read_pins(_requirements(tmp_path, b"x"))
    assert (pin.name, pin.version, len(pin.hashes)) == ("no-such.package_of_ours", "1.0", 2)


@pytest.mark.parametrize("line", ["numpy", "numpy>=1 --hash=sha256:" + "0" * 64, "numpy==1.0", "-e ."])
def test_what_is_not_pinned_with_hashes_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(line + "\n")
    with pytest.raises(EnvironmentUnavailable, match="is not pinned with hashes; run scripts/lock-requirements"):
        read_pins(path)


def test_a_kept_wheel_is_used_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.images.wheels.pip_command", lambda: ["/nonexistent"])
    house = tmp_path / "wheels" / TARGET.folder
    house.mkdir(parents=True)
    wheel = house / "no_such_package_of_ours-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    assert gather([_requirements(tmp_path, b"wheel")], TARGET, tmp_path) == [wheel]


def test_a_kept_wheel_with_another_content_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    house = tmp_path / "wheels" / TARGET.folder
    house.mkdir(parents=True)
    (house / "no_such_package_of_ours-1.0-py3-none-any.whl").write_bytes(b"tampered")
    with pytest.raises(EnvironmentUnavailable) as caught:
        gather([_requirements(tmp_path, b"wheel")], TARGET, tmp_path)
    assert "pip cannot download no-such.package_of_ours==1.0 for CPython 3.11" in str(caught.value)
    assert str(house) in str(caught.value)
    assert [p.name for p in house.iterdir()] == ["no_such_package_of_ours-1.0-py3-none-any.whl"]


def test_platforms_go_from_new_to_old() -> None:
    tags = TARGET.platforms
    assert tags[0] == "manylinux_2_36_x86_64" and "manylinux_2_17_x86_64" in tags and "manylinux2014_x86_64" in tags
