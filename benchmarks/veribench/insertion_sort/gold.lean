/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

/-- How often `x` occurs in a list. -/
def occurrences (x : Nat) : List Nat → Nat
  | [] => 0
  | y :: rest => (if x = y then 1 else 0) + occurrences x rest

/-- Put `x` in front of the first entry that is not below it. -/
def insertOne (x : Nat) : List Nat → List Nat
  | [] => [x]
  | y :: rest => if x ≤ y then x :: y :: rest else y :: insertOne x rest

/-- The entries of `xs` in ascending order. -/
def insertionSort (xs : List Nat) : List Nat :=
  match xs with
  | [] => []
  | x :: rest => insertOne x (insertionSort rest)

theorem insertOne_sorted (x : Nat) (xs : List Nat) (h : Sorted xs) : Sorted (insertOne x xs) := by
  induction xs with
  | nil => trivial
  | cons y ys ih =>
    by_cases hxy : x ≤ y
    · simp only [insertOne, if_pos hxy]
      exact ⟨hxy, h⟩
    · simp only [insertOne, if_neg hxy]
      cases ys with
      | nil => exact ⟨by omega, trivial⟩
      | cons z zs =>
        have ih' := ih h.2
        by_cases hxz : x ≤ z
        · simp only [insertOne, if_pos hxz] at ih' ⊢
          exact ⟨by omega, ih'⟩
        · simp only [insertOne, if_neg hxz] at ih' ⊢
          exact ⟨h.1, ih'⟩

theorem insertOne_count (v x : Nat) (xs : List Nat) :
    occurrences v (insertOne x xs) = (if v = x then 1 else 0) + occurrences v xs := by
  induction xs with
  | nil => rfl
  | cons y ys ih =>
    by_cases hxy : x ≤ y
    · simp only [insertOne, if_pos hxy, occurrences]
    · simp only [insertOne, if_neg hxy, occurrences, ih]
      exact Nat.add_left_comm _ _ _

theorem insertionSort_of_sorted (xs : List Nat) (h : Sorted xs) : insertionSort xs = xs := by
  induction xs with
  | nil => rfl
  | cons x ys ih =>
    cases ys with
    | nil => rfl
    | cons y zs =>
      rw [insertionSort, ih h.2]
      simp only [insertOne, if_pos h.1]

/-- The result is sorted. -/
theorem insertionSort_sorted (xs : List Nat) : Sorted (insertionSort xs) := by
  induction xs with
  | nil => trivial
  | cons x rest ih => exact insertOne_sorted x _ ih

/-- Each number occurs in the result as often as in the argument. -/
theorem insertionSort_count (x : Nat) (xs : List Nat) :
    occurrences x (insertionSort xs) = occurrences x xs := by
  induction xs with
  | nil => rfl
  | cons y rest ih => rw [insertionSort, insertOne_count, ih, occurrences]

/-- A second run changes nothing. -/
theorem insertionSort_twice (xs : List Nat) :
    insertionSort (insertionSort xs) = insertionSort xs := by
  exact insertionSort_of_sorted _ (insertionSort_sorted xs)
