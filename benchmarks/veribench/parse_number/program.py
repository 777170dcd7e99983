def parse_number(text):
    """Read a decimal number; return None if the text is not one."""
    if not text:
        return None
    value = 0
    for letter in text:
        if not "0" <= letter <= "9":
            return None
        value = 10 * value + ord(letter) - ord("0")
    return value
