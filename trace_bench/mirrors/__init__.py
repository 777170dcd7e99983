"""Copies of a run on other people's servers: never the source of truth, and never in the way of a run."""
