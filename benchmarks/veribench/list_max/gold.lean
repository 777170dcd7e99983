/-- The largest value of `xs`, or `none` if `xs` is empty. -/
def listMax (xs : List Int) : Option Int :=
  match xs with
  | [] => none
  | x :: rest =>
    match listMax rest with
    | none => some x
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

theorem listMax_mem (xs : List Int) (m : Int) (h : listMax xs = some m) : m ∈ xs := by
  induction xs generalizing m with
  | nil => simp [listMax] at h
  | cons x rest ih =>
    cases hr : listMax rest with
    | none =>
      simp [listMax, hr] at h
      simp [h]
    | some k =>
      have hk := ih k hr
      simp only [listMax, hr] at h
      split at h <;> simp at h <;> subst h <;> simp [hk]

theorem listMax_upper (xs : List Int) (m : Int) (h : listMax xs = some m) : ∀ x ∈ xs, x ≤ m := by
  induction xs generalizing m with
  | nil => simp
  | cons x rest ih =>
    intro y hy
    cases hr : listMax rest with
    | none =>
      have he := (listMax_none rest).1 hr
      subst he
      simp [listMax] at h hy
      omega
    | some k =>
      have hk := ih k hr
      simp only [listMax, hr] at h
      cases hy with
      | head => split at h <;> simp at h <;> omega
      | tail _ hy =>
        have := hk y hy
        split at h <;> simp at h <;> omega
