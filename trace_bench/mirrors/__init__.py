"""Copies of a run on other people's servers: never the source of truth, and never in the way of a run.

A mirror only reads the files of a run, in a process of its own, while the run goes on or at any time after.
"""
