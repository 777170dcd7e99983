"""One pass that applies "and" and "or" from left to right, as if both bound alike: fast, and wrong now and then."""


def evaluate_expression(text):
    value, _ = read(text.split(), 0)
    return bool(value)


def read(tokens, at):
    value, at = operand(tokens, at)
    while at < len(tokens) and tokens[at] != ")":
        word = tokens[at]
        right, at = operand(tokens, at + 1)
        if word == "and":
            value = value and right
        elif word == "or":
            value = value or right
        elif word == "+":
            value += right
        elif word == "-":
            value -= right
        elif word == "*":
            value *= right
        else:
            value = {
                "<": value < right,
                "<=": value <= right,
                ">": value > right,
                ">=": value >= right,
                "==": value == right,
                "!=": value != right,
            }[word]
    return value, at


def operand(tokens, at):
    token = tokens[at]
    if token == "not":
        value, at = operand(tokens, at + 1)
        return not value, at
    if token == "(":
        value, at = read(tokens, at + 1)
        return value, at + 1
    if token in ("True", "False"):
        return token == "True", at + 1
    return int(token), at + 1
