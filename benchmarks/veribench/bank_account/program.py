class Account:
    """An account whose balance is a natural number. Operations return a new account."""

    def __init__(self, balance: int):
        self.balance = balance

    def deposit(self, amount: int) -> "Account":
        """Return the account with amount added to its balance."""
        return Account(self.balance + amount)

    def withdraw(self, amount: int) -> "Account | None":
        """Return the account with amount taken off, or None if the balance is too small."""
        if amount > self.balance:
            return None
        return Account(self.balance - amount)

    def apply_all(self, ops: list[tuple[str, int]]) -> "Account | None":
        """Apply ("deposit", n) and ("withdraw", n) operations from left to right."""
        account = self
        for kind, amount in ops:
            account = account.deposit(amount) if kind == "deposit" else account.withdraw(amount)
            if account is None:
                return None
        return account
