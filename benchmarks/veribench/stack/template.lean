/-- A stack of integers. The head of `items` is the top of the stack. -/
structure Stack where
  items : List Int
deriving Repr

/-- The stack without any value. -/
def stackEmpty : Stack := Stack.mk []

/-- The stack with `x` put on the top. -/
def stackPush (s : Stack) (x : Int) : Stack := sorry

/-- The top value and the stack below it, or `none` if the stack is empty. -/
def stackPop (s : Stack) : Option (Int × Stack) := sorry

/-- The number of values on the stack. -/
def stackSize (s : Stack) : Nat := sorry

theorem stackPop_push (s : Stack) (x : Int) : stackPop (stackPush s x) = some (x, s) := by sorry

theorem stackPush_of_pop (s t : Stack) (x : Int) (h : stackPop s = some (x, t)) :
    stackPush t x = s := by sorry

theorem stackPop_none_iff (s : Stack) : stackPop s = none ↔ s = stackEmpty := by sorry

theorem stackSize_eq (s : Stack) : stackSize s = s.items.length := by sorry
