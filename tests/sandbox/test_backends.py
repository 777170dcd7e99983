"""Backends are found by name, and owners are told apart."""

from __future__ import annotations

import os

import pytest

from trace_bench.errors import ConfigError
from trace_bench.sandbox import get_backend, labels


def test_unknown_backend_is_a_config_error_that_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"no backend is called 'dokcer'; known are auto, docker, local"):
        get_backend("dokcer")


def test_owner_is_stable_and_differs_between_users(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = labels.owner()
    assert mine == labels.owner() and len(mine) == 16
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert labels.owner() != mine


def test_labels_match_only_if_every_pair_is_there() -> None:
    assert labels.matches({"a": "1", "b": "2"}, {"a": "1"})
    assert not labels.matches({"a": "1"}, {"a": "1", "b": "2"})
    assert not labels.matches({"a": "1"}, {"a": "2"})
