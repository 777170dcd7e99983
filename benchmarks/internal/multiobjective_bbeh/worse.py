"""Guesses without looking: as fast as can be, and wrong half of the time."""


def evaluate_expression(text):
    return True
