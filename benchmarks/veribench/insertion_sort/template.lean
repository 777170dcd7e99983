/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

/-- How often `x` occurs in a list. -/
def occurrences (x : Nat) : List Nat → Nat
  | [] => 0
  | y :: rest => (if x = y then 1 else 0) + occurrences x rest

/-- The entries of `xs` in ascending order. -/
def insertionSort (xs : List Nat) : List Nat := sorry

/-- The result is sorted. -/
theorem insertionSort_sorted (xs : List Nat) : Sorted (insertionSort xs) := by sorry

/-- Each number occurs in the result as often as in the argument. -/
theorem insertionSort_count (x : Nat) (xs : List Nat) :
    occurrences x (insertionSort xs) = occurrences x xs := by sorry

/-- A second run changes nothing. -/
theorem insertionSort_twice (xs : List Nat) :
    insertionSort (insertionSort xs) = insertionSort xs := by sorry
