def encode(text: str) -> str:
    """Encodes single letters only: right where no letter is repeated."""
    return "".join(letter + "1" for letter in text)
