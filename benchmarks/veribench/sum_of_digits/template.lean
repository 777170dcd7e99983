/-- The sum of the decimal digits of `n`, computed by recursion. -/
def sumOfDigits (n : Nat) : Nat := sorry

/-- The loop: add the digits of `n` to `total`, last digit first. -/
def sumOfDigitsLoop (total n : Nat) : Nat := sorry

/-- A number with one digit is its own digit sum. -/
theorem sumOfDigits_small (n : Nat) (h : n < 10) : sumOfDigits n = n := by sorry

/-- A further last digit `d` adds `d` to the sum. -/
theorem sumOfDigits_step (n d : Nat) (h : d < 10) :
    sumOfDigits (10 * n + d) = sumOfDigits n + d := by sorry

/-- A carry can only make the digit sum smaller. -/
theorem sumOfDigits_add_le (m n : Nat) :
    sumOfDigits (m + n) ≤ sumOfDigits m + sumOfDigits n := by sorry

/-- The loop computes the same sum as the recursive version. -/
theorem sumOfDigitsLoop_eq (total n : Nat) :
    sumOfDigitsLoop total n = total + sumOfDigits n := by sorry
