"""Imported by the server of `tests.forked`, once."""

import os

import pytest  # noqa: F401  (what multiprocessing imports in each fork otherwise)

from tests import unflushed
from tests.forked import preload

if unflushed.VARIABLE in os.environ:
    unflushed.flush_nothing()
preload()
