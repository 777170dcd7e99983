def encode(text: str) -> str:
    """Reads one letter too far."""
    out = ""
    count = 1
    for i in range(len(text)):
        if text[i] == text[i + 1]:
            count += 1
        else:
            out += text[i] + str(count)
            count = 1
    return out
