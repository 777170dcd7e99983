def balanced(text):
    """Tell if each parenthesis of the text has its partner."""
    depth = 0
    for letter in text:
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return False
    return depth == 0
