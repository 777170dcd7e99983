"""A parser by operator precedence (Pratt, Top down operator precedence, POPL 1973): one pass over the tokens."""

import operator

BINDS = {"or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "+": 5, "-": 5, "*": 6}
NOT = 3
FUNCTIONS = {
    "or": lambda a, b: a or b,
    "and": lambda a, b: a and b,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def evaluate_expression(text):
    tokens = text.split()
    tokens.reverse()
    return bool(parsed(tokens, 0))


def parsed(tokens, least):
    """The value of the tokens up to an operator that binds less than `least`; takes them from the end of the list."""
    token = tokens.pop()
    if token == "(":
        value = parsed(tokens, 0)
        tokens.pop()
    elif token == "not":
        value = not parsed(tokens, NOT)
    elif token == "True":
        value = True
    elif token == "False":
        value = False
    else:
        value = int(token)
    while tokens and BINDS.get(tokens[-1], 0) > least:
        sign = tokens.pop()
        value = FUNCTIONS[sign](value, parsed(tokens, BINDS[sign]))
    return value
