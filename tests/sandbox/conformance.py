"""The checks that every backend passes are part of the package: `trace_bench.sandbox.conformance`."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("trace_bench.sandbox.conformance")

from trace_bench.sandbox.conformance import CHECKS, Check, Lab  # noqa: E402
from trace_bench.sandbox.conformance.lab import (  # noqa: E402
    ECHO,
    GRANDCHILD,
    PRELUDE,
    SLEEP,
    content,
    members,
    read_all,
    read_bytes,
    read_until,
)

__all__ = [
    "CHECKS",
    "ECHO",
    "GRANDCHILD",
    "PRELUDE",
    "SLEEP",
    "Check",
    "Lab",
    "content",
    "members",
    "read_all",
    "read_bytes",
    "read_until",
]
