"""docs/design/integrity.md: what it says that tests try is tried by tests that exist."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.integration.cli import REPOSITORY

PAGE = (REPOSITORY / "docs" / "design" / "integrity.md").read_text(encoding="utf-8")
CITED = sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?(?:::\w+)?)`", PAGE)))
ATTACKS = re.search(r"^\| attack seen elsewhere .*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("cited", [name for name in CITED if not name.startswith("tests/adversarial")])
def test_a_test_that_is_named_exists(cited: str) -> None:
    path, _, function = cited.partition("::")
    assert (REPOSITORY / path).is_file()
    assert f"def {function}" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_an_attack_that_is_named_exists() -> None:
    if importlib.util.find_spec("tests.adversarial") is None:
        pytest.skip("the attacks are not in this tree")
    from tests.adversarial.attacks.registry import ATTACKS as known  # type: ignore[import-not-found,unused-ignore]

    assert ATTACKS is not None
    cells = [line.split("|")[3] for line in ATTACKS[0].splitlines()[2:] if line.startswith("|")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) > 30 and named - set(known) == set()
