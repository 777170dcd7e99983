-- Partial: three theorems are not proved.
/-- Euclid's algorithm with at most `fuel` steps. -/
def gcdSteps (fuel a b : Nat) : Nat :=
  match fuel with
  | 0 => a
  | fuel + 1 => if b = 0 then a else gcdSteps fuel b (a % b)

/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := gcdSteps (b + 1) a b

theorem gcdSteps_greatest (fuel a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) :
    d ∣ gcdSteps fuel a b := by
  induction fuel generalizing a b with
  | zero => exact ha
  | succ fuel ih =>
    unfold gcdSteps
    by_cases h : b = 0
    · rw [if_pos h]
      exact ha
    · rw [if_neg h]
      exact ih b (a % b) hb ((Nat.dvd_mod_iff hb).mpr ha)

/-- The result divides the first argument. -/
theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := by sorry

/-- The result divides the second argument. -/
theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := by sorry

/-- Each common divisor divides the result. -/
theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by
  exact gcdSteps_greatest (b + 1) a b d ha hb

/-- The order of the arguments does not matter. -/
theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := by sorry
