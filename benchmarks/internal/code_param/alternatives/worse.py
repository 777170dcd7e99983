def encode(text: str) -> str:
    """No encoding at all."""
    return text
