/-- The largest value of `xs`, or `none` if `xs` is empty. -/
def listMax (xs : List Int) : Option Int :=
  match xs with
  | [] => none
  | x :: rest =>
    match listMax rest with
    | none => some (if x ≤ 0 then 0 else x)
    | some m => if m ≤ x then some x else some m

theorem listMax_none (xs : List Int) : listMax xs = none ↔ xs = [] := by
  cases xs with
  | nil => simp [listMax]
  | cons x rest =>
    cases hr : listMax rest with
    | none => simp [listMax, hr]
    | some k =>
      simp only [listMax, hr]
      split <;> simp

theorem listMax_mem (xs : List Int) (m : Int) (h : listMax xs = some m) : m ∈ xs := by sorry

theorem listMax_upper (xs : List Int) (m : Int) (h : listMax xs = some m) : ∀ x ∈ xs, x ≤ m := by sorry
