/-- The loop of the Python program. -/
def countLoop (x : Nat) (xs : List Nat) : Nat := Id.run do
  let mut count := 0
  for y in xs do
    count := count + (if y = x then 1 else 0)
  return count

/-- How often `x` is in `xs`, by recursion. -/
def countOcc (x : Nat) (xs : List Nat) : Nat := sorry

theorem countOcc_append (x : Nat) (xs ys : List Nat) :
    countOcc x (xs ++ ys) = countOcc x xs + countOcc x ys := by sorry

theorem countOcc_zero_iff (x : Nat) (xs : List Nat) : countOcc x xs = 0 ↔ x ∉ xs := by sorry

theorem countOcc_le_length (x : Nat) (xs : List Nat) : countOcc x xs ≤ xs.length := by sorry

theorem countLoop_eq (x : Nat) (xs : List Nat) : countLoop x xs = countOcc x xs := by sorry
