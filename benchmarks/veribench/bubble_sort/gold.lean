/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

/-- How often `x` occurs in a list. -/
def occurrences (x : Nat) : List Nat → Nat
  | [] => 0
  | y :: rest => (if x = y then 1 else 0) + occurrences x rest

/-- How many entries a list has. -/
def size : List Nat → Nat
  | [] => 0
  | _ :: rest => size rest + 1

/-- One pass over `x` and the list after it, from the end to the front. -/
def pass (x : Nat) : List Nat → List Nat
  | [] => [x]
  | y :: rest =>
    match pass y rest with
    | [] => [x]
    | least :: others => if x ≤ least then x :: least :: others else least :: x :: others

/-- `n` passes, each over what is behind the entry that the last one brought to the front. -/
def passes : Nat → List Nat → List Nat
  | 0, xs => xs
  | _ + 1, [] => []
  | n + 1, x :: rest =>
    match pass x rest with
    | [] => []
    | least :: others => least :: passes n others

/-- The entries of `xs` in ascending order. -/
def bubbleSort (xs : List Nat) : List Nat := passes (size xs) xs

theorem pass_count (v x : Nat) (xs : List Nat) :
    occurrences v (pass x xs) = (if v = x then 1 else 0) + occurrences v xs := by
  induction xs generalizing x with
  | nil => rfl
  | cons y rest ih =>
    have seen := ih y
    simp only [pass, occurrences]
    rw [← seen]
    generalize pass y rest = after
    cases after with
    | nil => rfl
    | cons least others =>
      by_cases h : x ≤ least
      · simp only [if_pos h, occurrences]
      · simp only [if_neg h, occurrences]
        exact Nat.add_left_comm _ _ _

theorem passes_count (v n : Nat) (xs : List Nat) :
    occurrences v (passes n xs) = occurrences v xs := by
  induction n generalizing xs with
  | zero => rfl
  | succ n ih =>
    cases xs with
    | nil => rfl
    | cons x rest =>
      have seen := pass_count v x rest
      simp only [passes, occurrences]
      rw [← seen]
      generalize pass x rest = after
      cases after with
      | nil => rfl
      | cons least others => simp only [occurrences, ih]

/-- Each number occurs in the result as often as in the argument. -/
theorem bubbleSort_count (x : Nat) (xs : List Nat) :
    occurrences x (bubbleSort xs) = occurrences x xs := by
  exact passes_count x _ xs

/-- The result is sorted. -/
theorem bubbleSort_sorted (xs : List Nat) : Sorted (bubbleSort xs) := by sorry

/-- A list of one entry stays as it is. -/
theorem bubbleSort_single (x : Nat) : bubbleSort [x] = [x] := by rfl
