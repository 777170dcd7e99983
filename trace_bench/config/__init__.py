"""The config of a run: models, loading, and the checks against tasks and trainers."""

from trace_bench.config.loader import load_config, parse_config
from trace_bench.config.models import RunConfig

__all__ = ["RunConfig", "load_config", "parse_config"]
