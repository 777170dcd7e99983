def is_prime(n: int) -> bool:
    """Tell whether the natural number n is prime.

    A number below 2 is not prime. Any other number is prime
    if no number d with 2 <= d < n divides it.
    """
    if n < 2:
        return False
    return all(n % divisor != 0 for divisor in range(2, n))
