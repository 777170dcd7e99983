def fib(n: int) -> int:
    """Return the n-th Fibonacci number: fib(0) = 0, fib(1) = 1.

    Before each round, a is the current number and b is the next one.
    """
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
