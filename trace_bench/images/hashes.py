"""Hashes of the contents of recipes, and the files that do not belong to them."""

from __future__ import annotations

import hashlib


def digest(chunks: list[bytes]) -> str:
    """SHA-256 of `chunks`, each with its length, so that moving a byte from one to the next is seen."""
    total = hashlib.sha256()
    for chunk in chunks:
        total.update(len(chunk).to_bytes(8, "big"))
        total.update(chunk)
    return total.hexdigest()


def is_residue(name: str) -> bool:
    """True for byte code, and for what editors and file managers leave behind."""
    return name.endswith((".pyc", "~")) or any(p == "__pycache__" or p.startswith(".") for p in name.split("/"))
