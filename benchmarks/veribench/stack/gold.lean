/-- A stack of integers. The head of `items` is the top of the stack. -/
structure Stack where
  items : List Int
deriving Repr

/-- The stack without any value. -/
def stackEmpty : Stack := Stack.mk []

/-- The stack with `x` put on the top. -/
def stackPush (s : Stack) (x : Int) : Stack := Stack.mk (x :: s.items)

/-- The top value and the stack below it, or `none` if the stack is empty. -/
def stackPop (s : Stack) : Option (Int × Stack) :=
  match s.items with
  | [] => none
  | x :: rest => some (x, Stack.mk rest)

/-- The length of a list. -/
def itemCount (xs : List Int) : Nat :=
  match xs with
  | [] => 0
  | _ :: rest => itemCount rest + 1

/-- The number of values on the stack. -/
def stackSize (s : Stack) : Nat := itemCount s.items

theorem itemCount_eq (xs : List Int) : itemCount xs = xs.length := by
  induction xs with
  | nil => rfl
  | cons x rest ih => simp [itemCount, ih]

theorem stackPop_push (s : Stack) (x : Int) : stackPop (stackPush s x) = some (x, s) := by
  rfl

theorem stackPush_of_pop (s t : Stack) (x : Int) (h : stackPop s = some (x, t)) :
    stackPush t x = s := by
  cases s with
  | mk items =>
    cases items with
    | nil => simp [stackPop] at h
    | cons a rest =>
      simp [stackPop] at h
      obtain ⟨rfl, rfl⟩ := h
      rfl

theorem stackPop_none_iff (s : Stack) : stackPop s = none ↔ s = stackEmpty := by
  cases s with
  | mk items => cases items <;> simp [stackPop, stackEmpty]

theorem stackSize_eq (s : Stack) : stackSize s = s.items.length := by
  exact itemCount_eq s.items
