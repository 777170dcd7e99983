"""Answers with the text of the value, which is no Boolean."""


def evaluate_expression(text):
    return "True"
