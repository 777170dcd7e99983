"""Keeps secrets out of configs: a config is copied into every run, so a key must stay in the environment.

A message about a secret names its place and never its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trace_bench.config.source import Path_, Rows, Source, Table

_LOOKS_LIKE_A_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:or-|ant-|proj-)?[A-Za-z0-9_-]{8,}"
    r"|AIza[A-Za-z0-9_-]{10,}"
    r"|hf_[A-Za-z0-9]{10,}"
    r"|gh[pousr]_[A-Za-z0-9]{10,}"
    r"|github_pat_[A-Za-z0-9_]{10,}"
    r"|AKIA[A-Z0-9]{12,}"
    r")"
)
_CREDENTIALS_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]*:[^/\s@]+@", re.IGNORECASE)
_ASSIGNED = re.compile(r"\w*(?:api_?key|token|secret|password|passwd)=.*\S", re.IGNORECASE)
"""A secret in a text ``NAME=VALUE``, such as DAYTONA_API_KEY=…"""
_SECRET_NAME = re.compile(r"(api_?key|token|secret|password|passwd|authorization|cookie|credentials?)$")


def find_secrets(source: Source) -> dict[Path_, str]:
    """Find values of the config that look like secrets; returns a message for each place."""
    return {path: _sentence(source.shown(path)) for path in _search(source.root, (), False)}


def redact(text: str) -> str:
    """`text` with everything that looks like a key blotted out."""
    return _LOOKS_LIKE_A_KEY.sub("[secret]", _CREDENTIALS_IN_URL.sub("[secret]@", text))


def _search(value: Any, path: Path_, under_secret_name: bool) -> Iterator[Path_]:
    if isinstance(value, Table):
        for key, item in value.items():
            name = key.lower().replace("-", "_")
            yield from _search(item, (*path, key), bool(_SECRET_NAME.search(name)))
    elif isinstance(value, Rows):
        for index, item in enumerate(value):
            yield from _search(item, (*path, index), under_secret_name)
    elif isinstance(value, str):
        looks_like_one = _LOOKS_LIKE_A_KEY.search(value) or _CREDENTIALS_IN_URL.search(value) or _ASSIGNED.match(value)
        if looks_like_one or (under_secret_name and value.strip()):
            yield path


def _sentence(shown: str) -> str:
    home = "harbor_extra_env: [NAME]" if ".harbor_extra_env" in shown else "llm.api_key_env"
    return (
        f"{shown} holds a secret; take it out (and replace it, if the file was shared), put it in an "
        f"environment variable, and name that variable under {home}"
    )
