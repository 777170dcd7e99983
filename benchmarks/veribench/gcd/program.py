def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor of two natural numbers.

    The pair (a, b) is replaced by (b, a mod b) until b is 0.
    If one argument is 0, the result is the other argument.
    """
    while b != 0:
        a, b = b, a % b
    return a
