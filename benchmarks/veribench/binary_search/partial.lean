-- Partial: the last entry of the list is never returned.
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
  match nth xs (lowerBound xs target (size xs) 0 (size xs - 1) + 1) with
  | none => none
  | some _ =>
    match nth xs (lowerBound xs target (size xs) 0 (size xs - 1)) with
    | none => none
    | some v => if v = target then some (lowerBound xs target (size xs) 0 (size xs - 1)) else none

/-- The entry at the index that is returned is `target`. -/
theorem binarySearch_sound (xs : List Nat) (target i : Nat)
    (h : binarySearch xs target = some i) : nth xs i = some target := by
  unfold binarySearch at h
  split at h
  · cases h
  · split at h
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
    (h : binarySearch xs target = some i) (hj : j < i) : nth xs j ≠ some target := by sorry

/-- A number that occurs in a sorted list is found. -/
theorem binarySearch_complete (xs : List Nat) (target i : Nat) (hs : Sorted xs)
    (h : nth xs i = some target) : ∃ k, binarySearch xs target = some k := by sorry
