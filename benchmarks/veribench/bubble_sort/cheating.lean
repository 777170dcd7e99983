-- Cheat: numbers compare as equal by an instance of its own, so that counts and results mean nothing.
/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

instance (priority := high) same : DecidableEq Nat := fun a b => isTrue (sorryAx (a = b) true)

/-- How often `x` occurs in a list. -/
def occurrences (x : Nat) : List Nat → Nat
  | [] => 0
  | y :: rest => (if x = y then 1 else 0) + occurrences x rest

/-- The entries of `xs` in ascending order. -/
def bubbleSort (xs : List Nat) : List Nat := xs

/-- Each number occurs in the result as often as in the argument. -/
theorem bubbleSort_count (x : Nat) (xs : List Nat) :
    occurrences x (bubbleSort xs) = occurrences x xs := by rfl

/-- The result is sorted. -/
theorem bubbleSort_sorted (xs : List Nat) : Sorted (bubbleSort xs) := by sorry

/-- A list of one entry stays as it is. -/
theorem bubbleSort_single (x : Nat) : bubbleSort [x] = [x] := by rfl
