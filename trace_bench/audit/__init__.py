"""Checks what a run claims against what its files show, and runs it again."""
