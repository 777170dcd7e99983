/-- The loop of the Python program: `xs` are the values to come, `result` is the result so far. -/
def reverseLoop (xs result : List Nat) : List Nat :=
  match xs with
  | [] => result
  | x :: rest => reverseLoop rest (x :: result)

/-- The list `xs` with `x` at its end. -/
def appendOne (xs : List Nat) (x : Nat) : List Nat :=
  match xs with
  | [] => [x]
  | y :: rest => y :: appendOne rest x

theorem appendOne_eq (xs : List Nat) (x : Nat) : appendOne xs x = xs ++ [x] := by
  induction xs with
  | nil => rfl
  | cons y rest ih => simp [appendOne, ih]

/-- The values of `xs` in reverse order, by recursion. -/
def reverseList (xs : List Nat) : List Nat :=
  match xs with
  | [] => []
  | x :: rest => appendOne (reverseList rest) x

theorem reverseList_append (xs ys : List Nat) :
    reverseList (xs ++ ys) = reverseList ys ++ reverseList xs := by sorry

theorem reverseList_reverseList (xs : List Nat) : reverseList (reverseList xs) = xs := by sorry

theorem reverseList_length (xs : List Nat) : (reverseList xs).length = xs.length := by
  induction xs with
  | nil => simp [reverseList]
  | cons x rest ih => simp [reverseList, appendOne_eq, ih]

theorem reverseLoop_eq (xs : List Nat) : reverseLoop xs [] = reverseList xs := by sorry
