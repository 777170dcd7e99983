"""The runs on a simulated backend that `tests.execution` has."""

from tests.execution.conftest import bench

__all__ = ["bench"]
