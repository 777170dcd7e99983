/-- The sum of the decimal digits of `n`, computed by recursion. -/
def sumOfDigits (n : Nat) : Nat :=
  if h : n < 10 then n else sumOfDigits (n / 10) + n % 10
termination_by n
decreasing_by omega

/-- The loop: add the digits of `n` to `total`, last digit first. -/
def sumOfDigitsLoop (total n : Nat) : Nat :=
  if h : n = 0 then total else sumOfDigitsLoop (total + n % 10) (n / 10)
termination_by n
decreasing_by omega

/-- A number with one digit is its own digit sum. -/
theorem sumOfDigits_small (n : Nat) (h : n < 10) : sumOfDigits n = n := by
  unfold sumOfDigits
  rw [dif_pos h]

theorem sumOfDigits_large (n : Nat) (h : ¬ n < 10) :
    sumOfDigits n = sumOfDigits (n / 10) + n % 10 := by
  conv => lhs; unfold sumOfDigits
  rw [dif_neg h]

/-- A further last digit `d` adds `d` to the sum. -/
theorem sumOfDigits_step (n d : Nat) (h : d < 10) :
    sumOfDigits (10 * n + d) = sumOfDigits n + d := by
  by_cases hn : n = 0
  · subst hn
    have h0 := sumOfDigits_small 0 (by omega)
    have hd := sumOfDigits_small (10 * 0 + d) (by omega)
    omega
  · have h2 : (10 * n + d) / 10 = n := by omega
    have h3 : (10 * n + d) % 10 = d := by omega
    rw [sumOfDigits_large (10 * n + d) (by omega), h2, h3]

/-- A carry can only make the digit sum smaller. -/
theorem sumOfDigits_add_le (m n : Nat) :
    sumOfDigits (m + n) ≤ sumOfDigits m + sumOfDigits n := by sorry

/-- The loop computes the same sum as the recursive version. -/
theorem sumOfDigitsLoop_eq (total n : Nat) :
    sumOfDigitsLoop total n = total + sumOfDigits n := by
  induction n using Nat.strongRecOn generalizing total with
  | ind n ih =>
    unfold sumOfDigitsLoop
    by_cases h : n = 0
    · rw [dif_pos h, sumOfDigits_small n (by omega)]
      omega
    · rw [dif_neg h, ih (n / 10) (by omega)]
      have hs := sumOfDigits_step (n / 10) (n % 10) (by omega)
      have he : 10 * (n / 10) + n % 10 = n := by omega
      rw [he] at hs
      omega
