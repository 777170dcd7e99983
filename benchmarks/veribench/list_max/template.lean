/-- The largest value of `xs`, or `none` if `xs` is empty. -/
def listMax (xs : List Int) : Option Int := sorry

theorem listMax_none (xs : List Int) : listMax xs = none ↔ xs = [] := by sorry

theorem listMax_mem (xs : List Int) (m : Int) (h : listMax xs = some m) : m ∈ xs := by sorry

theorem listMax_upper (xs : List Int) (m : Int) (h : listMax xs = some m) : ∀ x ∈ xs, x ≤ m := by sorry
