"""Trainers that are other frameworks: each runs its real package, and evaluates and asks models the way ours do."""
