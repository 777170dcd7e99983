/-- The `n`-th Fibonacci number by the plain recursive definition. -/
def fib (n : Nat) : Nat :=
  match n with
  | 0 => 0
  | 1 => 1
  | n + 2 => fib n + fib (n + 1)

/-- The `n`-th Fibonacci number by a loop with two accumulators, in `n` rounds. -/
def fibLoop (n : Nat) : Nat := Id.run do
  let mut pair := (0, 1)
  for _ in List.range n do
    pair := (pair.2, pair.1 + pair.2)
  return pair.1

theorem fib_fold (n : Nat) :
    (List.range n).foldl (fun (pair : Nat × Nat) _ => (pair.2, pair.1 + pair.2)) (0, 1) =
      (fib n, fib (n + 1)) := by
  induction n with
  | zero => simp [fib]
  | succ n ih => simp [List.range_succ, ih, fib]

/-- The first two Fibonacci numbers. -/
theorem fib_start : fib 0 = 0 ∧ fib 1 = 1 := by exact ⟨rfl, rfl⟩

/-- Each later Fibonacci number is the sum of the two before it. -/
theorem fib_step (n : Nat) : fib (n + 2) = fib n + fib (n + 1) := by rfl

/-- The addition formula. -/
theorem fib_add (m n : Nat) :
    fib (m + n + 1) = fib m * fib n + fib (m + 1) * fib (n + 1) := by sorry

/-- The loop computes the same numbers as the recursive definition. -/
theorem fibLoop_eq (n : Nat) : fibLoop n = fib n := by
  simp [fibLoop, fib_fold]
