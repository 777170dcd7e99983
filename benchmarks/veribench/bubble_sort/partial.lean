-- Partial: one pass only.
/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

/-- How often `x` occurs in a list. -/
def occurrences (x : Nat) : List Nat → Nat
  | [] => 0
  | y :: rest => (if x = y then 1 else 0) + occurrences x rest

/-- One pass over `x` and the list after it, from the end to the front. -/
def pass (x : Nat) : List Nat → List Nat
  | [] => [x]
  | y :: rest =>
    match pass y rest with
    | [] => [x]
    | least :: others => if x ≤ least then x :: least :: others else least :: x :: others

/-- The entries of `xs` in ascending order. -/
def bubbleSort (xs : List Nat) : List Nat :=
  match xs with
  | [] => []
  | x :: rest => pass x rest

/-- Each number occurs in the result as often as in the argument. -/
theorem bubbleSort_count (x : Nat) (xs : List Nat) :
    occurrences x (bubbleSort xs) = occurrences x xs := by sorry

/-- The result is sorted. -/
theorem bubbleSort_sorted (xs : List Nat) : Sorted (bubbleSort xs) := by sorry

/-- A list of one entry stays as it is. -/
theorem bubbleSort_single (x : Nat) : bubbleSort [x] = [x] := by sorry
