"""Imported by the server of `tests.forked`, once."""

import pytest  # noqa: F401  (what multiprocessing imports in each fork otherwise)

from tests.forked import preload

preload()
