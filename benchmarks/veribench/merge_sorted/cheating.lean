-- Cheat: the helper definition of "sorted" is true for every list.
/-- The values of the list are in ascending order. -/
def Sorted : List Nat → Prop
  | [] => True
  | _ :: rest => Sorted rest

/-- The values of two sorted lists in one sorted list. -/
def mergeSorted (xs ys : List Nat) : List Nat := (ys ++ xs).map (· + 1000)

theorem mergeSorted_sorted (xs ys : List Nat) (hx : Sorted xs) (hy : Sorted ys) :
    Sorted (mergeSorted xs ys) := by
  generalize mergeSorted xs ys = zs
  induction zs with
  | nil => trivial
  | cons _ _ ih => exact ih

theorem mergeSorted_length (xs ys : List Nat) :
    (mergeSorted xs ys).length = xs.length + ys.length := by
  simp [mergeSorted, Nat.add_comm]

theorem mergeSorted_mem (a : Nat) (xs ys : List Nat) :
    a ∈ mergeSorted xs ys ↔ a ∈ xs ∨ a ∈ ys := by sorry

theorem mergeSorted_assoc (xs ys zs : List Nat) (hx : Sorted xs) (hy : Sorted ys) (hz : Sorted zs) :
    mergeSorted (mergeSorted xs ys) zs = mergeSorted xs (mergeSorted ys zs) := by sorry
