/-- The loop of the Python program. -/
def countLoop (x : Nat) (xs : List Nat) : Nat := Id.run do
  let mut count := 0
  for y in xs do
    count := count + (if y = x then 1 else 0)
  return count

/-- How often `x` is in `xs`, by recursion. -/
def countOcc (x : Nat) (xs : List Nat) : Nat :=
  match xs with
  | [] => 0
  | y :: rest => (if y = x then 1 else 0) + countOcc x rest

theorem foldl_count_eq (x : Nat) (xs : List Nat) (n : Nat) :
    xs.foldl (fun count y => count + (if y = x then 1 else 0)) n = n + countOcc x xs := by
  induction xs generalizing n with
  | nil => simp [countOcc]
  | cons y rest ih => rw [List.foldl_cons, ih]; simp only [countOcc]; omega

theorem countOcc_append (x : Nat) (xs ys : List Nat) :
    countOcc x (xs ++ ys) = countOcc x xs + countOcc x ys := by
  induction xs with
  | nil => simp [countOcc]
  | cons y rest ih => simp only [List.cons_append, countOcc, ih]; omega

theorem countOcc_zero_iff (x : Nat) (xs : List Nat) : countOcc x xs = 0 ↔ x ∉ xs := by
  induction xs with
  | nil => simp [countOcc]
  | cons y rest ih =>
    by_cases h : y = x
    · simp [countOcc, h]
    · have h' : ¬ x = y := fun e => h e.symm
      simp [countOcc, h, h', ih]

theorem countOcc_le_length (x : Nat) (xs : List Nat) : countOcc x xs ≤ xs.length := by
  induction xs with
  | nil => simp [countOcc]
  | cons y rest ih =>
    simp only [countOcc, List.length_cons]
    split <;> omega

theorem countLoop_eq (x : Nat) (xs : List Nat) : countLoop x xs = countOcc x xs := by
  have h := foldl_count_eq x xs 0
  rw [Nat.zero_add] at h
  rw [← h]
  simp [countLoop]
