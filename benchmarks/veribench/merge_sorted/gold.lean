/-- The values of the list are in ascending order. -/
def Sorted : List Nat → Prop
  | [] => True
  | x :: rest => (∀ y ∈ rest, x ≤ y) ∧ Sorted rest

/-- The values of two sorted lists in one sorted list. -/
def mergeSorted (xs ys : List Nat) : List Nat :=
  match xs, ys with
  | [], ys => ys
  | x :: xs, [] => x :: xs
  | x :: xs, y :: ys =>
    if x ≤ y then x :: mergeSorted xs (y :: ys)
    else y :: mergeSorted (x :: xs) ys
termination_by xs.length + ys.length

theorem merge_mem (a : Nat) (xs ys : List Nat) :
    a ∈ mergeSorted xs ys ↔ a ∈ xs ∨ a ∈ ys := by
  fun_induction mergeSorted xs ys with
  | case1 ys => simp
  | case2 x xs => simp
  | case3 x xs y ys h ih => simp only [List.mem_cons, ih, or_assoc]
  | case4 x xs y ys h ih =>
    simp only [List.mem_cons, ih]
    constructor <;> intro h <;> grind

theorem mergeSorted_sorted (xs ys : List Nat) (hx : Sorted xs) (hy : Sorted ys) :
    Sorted (mergeSorted xs ys) := by
  fun_induction mergeSorted xs ys with
  | case1 ys => exact hy
  | case2 x xs => exact hx
  | case3 x xs y ys h ih =>
    refine ⟨?_, ih hx.2 hy⟩
    intro z hz
    rw [merge_mem] at hz
    cases hz with
    | inl hz => exact hx.1 z hz
    | inr hz =>
      cases hz with
      | head => exact h
      | tail _ hz => exact Nat.le_trans h (hy.1 z hz)
  | case4 x xs y ys h ih =>
    refine ⟨?_, ih hx hy.2⟩
    intro z hz
    rw [merge_mem] at hz
    cases hz with
    | inr hz => exact hy.1 z hz
    | inl hz =>
      cases hz with
      | head => omega
      | tail _ hz => have := hx.1 z hz; omega

theorem mergeSorted_length (xs ys : List Nat) :
    (mergeSorted xs ys).length = xs.length + ys.length := by
  fun_induction mergeSorted xs ys with
  | case1 ys => simp
  | case2 x xs => simp
  | case3 x xs y ys h ih => simp only [List.length_cons] at *; omega
  | case4 x xs y ys h ih => simp only [List.length_cons] at *; omega

theorem mergeSorted_mem (a : Nat) (xs ys : List Nat) :
    a ∈ mergeSorted xs ys ↔ a ∈ xs ∨ a ∈ ys := by
  exact merge_mem a xs ys

theorem mergeSorted_assoc (xs ys zs : List Nat) (hx : Sorted xs) (hy : Sorted ys) (hz : Sorted zs) :
    mergeSorted (mergeSorted xs ys) zs = mergeSorted xs (mergeSorted ys zs) := by sorry
