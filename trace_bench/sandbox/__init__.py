"""Sandboxes. Only this package knows the engines; the rest of the host sees `Backend`, `Sandbox` and `Stream`."""

from trace_bench.sandbox.backends import backend_names, get_backend
from trace_bench.sandbox.base import (
    CONTROLS,
    FEATURES,
    Backend,
    Control,
    ExitStatus,
    Integrity,
    Resources,
    Sandbox,
    SandboxRequest,
    SandboxState,
    Stream,
)

__all__ = [
    "CONTROLS",
    "FEATURES",
    "Backend",
    "Control",
    "ExitStatus",
    "Integrity",
    "Resources",
    "Sandbox",
    "SandboxRequest",
    "SandboxState",
    "Stream",
    "backend_names",
    "get_backend",
]
