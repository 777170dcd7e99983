"""What others pull: images by the digest that a registry gave them, found without an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images.layers import family_named
from trace_bench.images.lock import ImagePin, record
from trace_bench.images.pins import pushed
from trace_bench.images.recipe import key_of_parts

DIGEST = "ghcr.io/lab/trace-bench/core@sha256:" + "5" * 64


@pytest.fixture
def pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImagePin:
    """Locked and pushed; and no engine to be asked."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    parts = family_named("core").recipe.parts("packages:1")
    found = ImagePin(
        family="core", ref="trace-bench/core:1", key=key_of_parts("core", parts), image_id="sha256:1",
        base="packages:1", built_at="2026-01-01T00:00:00Z", repo_digest=DIGEST, parts=parts,
    )  # fmt: skip
    return record(found, home=tmp_path)


@pytest.mark.parametrize("registry", ["ghcr.io/lab", "ghcr.io/lab/", "ghcr.io"])
def test_it_is_had_by_its_digest(pin: ImagePin, tmp_path: Path, registry: str) -> None:
    found = pushed("core", registry, home=tmp_path)
    assert (found.ref, found.key, found.drift) == (DIGEST, pin.key, ())


@pytest.mark.parametrize("registry", ["ghcr.io/la", "ghcr.io/lab/trace", "other.io"])
def test_one_that_lies_elsewhere_is_to_be_pushed(pin: ImagePin, tmp_path: Path, registry: str) -> None:
    with pytest.raises(EnvironmentUnavailable, match=rf"run `trace-bench images push core --registry {registry}`"):
        pushed("core", registry, home=tmp_path)


def test_one_that_was_never_built_is_to_be_built_first(pin: ImagePin, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"`trace-bench images build llm4ad && trace-bench images push ll"):
        pushed("llm4ad", "ghcr.io/lab", home=tmp_path)


def test_drift_is_refused_unless_it_is_accepted(pin: ImagePin, tmp_path: Path) -> None:
    record(replace(pin, parts={**pin.parts, "worker": "0" * 64}), home=tmp_path)
    with pytest.raises(EnvironmentUnavailable, match="worker sources changed since") as caught:
        pushed("core", "ghcr.io/lab", home=tmp_path)
    both = "run `trace-bench images build core && trace-bench images push core --registry ghcr.io/lab`"
    assert both in str(caught.value)
    assert pushed("core", "ghcr.io/lab", accept_drift=True, home=tmp_path).drift == ("worker",)
