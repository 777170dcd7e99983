/-- Each entry is at most the next one. -/
def Sorted : List Nat → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a ≤ b ∧ Sorted (b :: rest)

/-- The entry at an index, or `none` if the list is too short. -/
def nth : List Nat → Nat → Option Nat
  | [], _ => none
  | x :: _, 0 => some x
  | _ :: rest, i + 1 => nth rest i

/-- The number of entries. -/
def size : List Nat → Nat
  | [] => 0
  | _ :: rest => size rest + 1

/-- The first index in `lo ... hi` whose entry is not below `target`; at most `fuel` steps. -/
def lowerBound (xs : List Nat) (target fuel lo hi : Nat) : Nat :=
  match fuel with
  | 0 => lo
  | fuel + 1 =>
    if lo < hi then
      match nth xs ((lo + hi) / 2) with
      | none => lo
      | some v =>
        if v < target then lowerBound xs target fuel ((lo + hi) / 2 + 1) hi
        else lowerBound xs target fuel lo ((lo + hi) / 2)
    else lo

/-- The index of the first occurrence of `target` in the sorted list `xs`. -/
def binarySearch (xs : List Nat) (target : Nat) : Option Nat :=
  match nth xs (lowerBound xs target (size xs) 0 (size xs)) with
  | none => none
  | some v => if v = target then some (lowerBound xs target (size xs) 0 (size xs)) else none

theorem sorted_tail (a : Nat) (xs : List Nat) (h : Sorted (a :: xs)) : Sorted xs := by
  cases xs with
  | nil => trivial
  | cons b ys => exact h.2

theorem sorted_head (a : Nat) (xs : List Nat) (j w : Nat) (hs : Sorted (a :: xs))
    (h : nth xs j = some w) : a ≤ w := by
  induction xs generalizing a j with
  | nil => simp [nth] at h
  | cons b ys ih =>
    cases j with
    | zero =>
      simp [nth] at h
      subst h
      exact hs.1
    | succ j => exact Nat.le_trans hs.1 (ih b j hs.2 h)

theorem sorted_mono (xs : List Nat) (i j v w : Nat) (hs : Sorted xs) (hij : i ≤ j)
    (hv : nth xs i = some v) (hw : nth xs j = some w) : v ≤ w := by
  induction xs generalizing i j with
  | nil => simp [nth] at hv
  | cons a ys ih =>
    cases i with
    | zero =>
      simp [nth] at hv
      subst hv
      cases j with
      | zero =>
        simp [nth] at hw
        omega
      | succ j => exact sorted_head a ys j w hs hw
    | succ i =>
      cases j with
      | zero => omega
      | succ j => exact ih i j (sorted_tail a ys hs) (by omega) hv hw

theorem lowerBound_below (xs : List Nat) (target fuel lo hi : Nat) (hs : Sorted xs)
    (hlo : ∀ j v, j < lo → nth xs j = some v → v < target) :
    ∀ j v, j < lowerBound xs target fuel lo hi → nth xs j = some v → v < target := by
  induction fuel generalizing lo hi with
  | zero => exact hlo
  | succ fuel ih =>
    unfold lowerBound
    split
    · split
      · exact hlo
      · next m hm =>
        split
        · next hlt =>
          apply ih
          intro j v hj hv
          have := sorted_mono xs j _ v m hs (by omega) hv hm
          omega
        · exact ih _ _ hlo
    · exact hlo

/-- The entry at the index that is returned is `target`. -/
theorem binarySearch_sound (xs : List Nat) (target i : Nat)
    (h : binarySearch xs target = some i) : nth xs i = some target := by
  unfold binarySearch at h
  split at h
  · cases h
  · next v hv =>
    split at h
    · next he =>
      subst he
      cases h
      exact hv
    · cases h

/-- The result is `none` if `target` is at no index. -/
theorem binarySearch_none (xs : List Nat) (target : Nat)
    (h : ∀ i, nth xs i ≠ some target) : binarySearch xs target = none := by
  cases hr : binarySearch xs target with
  | none => rfl
  | some i => exact absurd (binarySearch_sound xs target i hr) (h i)

/-- No earlier index of a sorted list holds `target`. -/
theorem binarySearch_first (xs : List Nat) (target i j : Nat) (hs : Sorted xs)
    (h : binarySearch xs target = some i) (hj : j < i) : nth xs j ≠ some target := by
  intro hn
  unfold binarySearch at h
  split at h
  · cases h
  · split at h
    · cases h
      have := lowerBound_below xs target _ 0 _ hs (fun j v h0 => by omega) j target hj hn
      omega
    · cases h

/-- A number that occurs in a sorted list is found. -/
theorem binarySearch_complete (xs : List Nat) (target i : Nat) (hs : Sorted xs)
    (h : nth xs i = some target) : ∃ k, binarySearch xs target = some k := by sorry
