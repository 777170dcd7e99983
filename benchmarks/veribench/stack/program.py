class Stack:
    """A last-in, first-out store of integers; the end of `items` is the top."""

    def __init__(self):
        self.items = []

    def push(self, value):
        """Put a value on the top."""
        self.items.append(value)

    def pop(self):
        """Take the top value away and return it, or return None if there is no value."""
        if not self.items:
            return None
        return self.items.pop()

    def size(self):
        """Return how many values the stack holds."""
        return len(self.items)
