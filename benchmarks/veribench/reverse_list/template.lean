/-- The loop of the Python program: `xs` are the values to come, `result` is the result so far. -/
def reverseLoop (xs result : List Nat) : List Nat :=
  match xs with
  | [] => result
  | x :: rest => reverseLoop rest (x :: result)

/-- The values of `xs` in reverse order, by recursion. -/
def reverseList (xs : List Nat) : List Nat := sorry

theorem reverseList_append (xs ys : List Nat) :
    reverseList (xs ++ ys) = reverseList ys ++ reverseList xs := by sorry

theorem reverseList_reverseList (xs : List Nat) : reverseList (reverseList xs) = xs := by sorry

theorem reverseList_length (xs : List Nat) : (reverseList xs).length = xs.length := by sorry

theorem reverseLoop_eq (xs : List Nat) : reverseLoop xs [] = reverseList xs := by sorry
