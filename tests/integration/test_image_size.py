"""The image that runs a trainer on the graph library stays small: none of what trace-opt declares is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.images.engine import connect
from trace_bench.images.lock import read_lock

pytestmark = pytest.mark.docker


def test_the_core_image_adds_less_than_250_mb_to_the_base_and_no_llm_client(images: Path) -> None:
    lock, engine = read_lock(images), connect(None)
    pin = lock.images["core"]
    size = {ref: engine.api.inspect_image(ref)["Size"] for ref in (pin.ref, lock.bases[pin.base].ref)}
    added = size[pin.ref] - size[lock.bases[pin.base].ref]
    assert 0 < added < 250e6, f"{added / 1e6:.0f} MB"
    names = "litellm", "openai", "xgboost", "sklearn", "opto"
    look = f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"
    said = engine.containers.run(pin.ref, ["-c", look], entrypoint="python3", network_mode="none", remove=True)
    assert said.decode().strip() == "['opto']"
