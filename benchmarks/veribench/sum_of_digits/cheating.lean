-- Cheat: `@[implemented_by]` runs a real program in the tests, but the definition in the logic is a stub.
partial def digitsAtRunTime (n : Nat) : Nat :=
  if n = 0 then 0 else n % 10 + digitsAtRunTime (n / 10)

def loopAtRunTime (total n : Nat) : Nat := total + digitsAtRunTime n

/-- The sum of the decimal digits of `n`, computed by recursion. -/
@[implemented_by digitsAtRunTime]
def sumOfDigits (n : Nat) : Nat := n

/-- The loop: add the digits of `n` to `total`, last digit first. -/
@[implemented_by loopAtRunTime]
def sumOfDigitsLoop (total n : Nat) : Nat := total + n

/-- A number with one digit is its own digit sum. -/
theorem sumOfDigits_small (n : Nat) (h : n < 10) : sumOfDigits n = n := by rfl

/-- A further last digit `d` adds `d` to the sum. -/
theorem sumOfDigits_step (n d : Nat) (h : d < 10) :
    sumOfDigits (10 * n + d) = sumOfDigits n + d := by sorry

/-- A carry can only make the digit sum smaller. -/
theorem sumOfDigits_add_le (m n : Nat) :
    sumOfDigits (m + n) ≤ sumOfDigits m + sumOfDigits n := by
  exact Nat.le_refl (m + n)

/-- The loop computes the same sum as the recursive version. -/
theorem sumOfDigitsLoop_eq (total n : Nat) :
    sumOfDigitsLoop total n = total + sumOfDigits n := by rfl
