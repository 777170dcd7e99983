-- Cheat: the statements get an extra hypothesis `False`, which nobody can supply.
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

/-- The index of the first occurrence of `target` in the sorted list `xs`. -/
def binarySearch (xs : List Nat) (target : Nat) : Option Nat := some 0

/-- The entry at the index that is returned is `target`. -/
theorem binarySearch_sound (xs : List Nat) (target i : Nat) (no : False)
    (h : binarySearch xs target = some i) : nth xs i = some target := by exact no.elim

/-- The result is `none` if `target` is at no index. -/
theorem binarySearch_none (xs : List Nat) (target : Nat) (no : False)
    (h : ∀ i, nth xs i ≠ some target) : binarySearch xs target = none := by exact no.elim

/-- No earlier index of a sorted list holds `target`. -/
theorem binarySearch_first (xs : List Nat) (target i j : Nat) (no : False) (hs : Sorted xs)
    (h : binarySearch xs target = some i) (hj : j < i) : nth xs j ≠ some target := by exact no.elim

/-- A number that occurs in a sorted list is found. -/
theorem binarySearch_complete (xs : List Nat) (target i : Nat) (no : False) (hs : Sorted xs)
    (h : nth xs i = some target) : ∃ k, binarySearch xs target = some k := by exact no.elim
