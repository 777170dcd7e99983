def sum_of_digits(n: int, total: int = 0) -> int:
    """Return total plus the sum of the decimal digits of the natural number n.

    The loop takes the last digit off n and adds it to total, until n is 0.
    """
    while n > 0:
        total += n % 10
        n //= 10
    return total
