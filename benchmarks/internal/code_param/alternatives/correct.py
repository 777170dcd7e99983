from itertools import groupby


def encode(text: str) -> str:
    """One letter and one count a run."""
    return "".join(f"{letter}{sum(1 for _ in run)}" for letter, run in groupby(text))
