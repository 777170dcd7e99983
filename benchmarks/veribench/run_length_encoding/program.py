def encode(text: str) -> list[tuple[str, int]]:
    """Return the maximal runs of equal characters in text as (character, length) pairs."""
    runs: list[tuple[str, int]] = []
    for c in text:
        if runs and runs[-1][0] == c:
            runs[-1] = (c, runs[-1][1] + 1)
        else:
            runs.append((c, 1))
    return runs


def decode(runs: list[tuple[str, int]]) -> str:
    """Return the text in which each pair (c, n) stands for n copies of c."""
    text = ""
    for c, n in runs:
        text += c * n
    return text
