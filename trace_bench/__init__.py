"""Trace-Bench measures LLM-driven optimizers in isolated, repeatable jobs."""

__version__ = "0.1.0"
