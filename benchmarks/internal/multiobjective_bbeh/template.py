"""Splits an expression at its loosest operator, again and again. It is right, and slow: to know how deep in parentheses
a token is, it counts them from the start each time."""

LOOSEST_FIRST = (("or",), ("and",), ("not",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*",))


def evaluate_expression(text):
    return bool(value_of(text))


def value_of(text):
    tokens = text.split()
    for signs in LOOSEST_FIRST:
        for place in range(len(tokens) - 1, -1, -1):
            before = " ".join(tokens[:place])
            if tokens[place] in signs and before.count("(") == before.count(")"):
                after = " ".join(tokens[place + 1 :])
                if tokens[place] == "not":
                    if before:
                        continue
                    return not value_of(after)
                return applied(tokens[place], value_of(before), value_of(after))
    if tokens[0] == "(":
        return value_of(" ".join(tokens[1:-1]))
    return {"True": True, "False": False}[tokens[0]] if tokens[0] in ("True", "False") else int(tokens[0])


def applied(sign, a, b):
    results = {
        "or": a or b,
        "and": a and b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
        "==": a == b,
        "!=": a != b,
        "+": a + b,
        "-": a - b,
        "*": a * b,
    }
    return results[sign]
