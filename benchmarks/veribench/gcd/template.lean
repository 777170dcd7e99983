/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := sorry

/-- The result divides the first argument. -/
theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := by sorry

/-- The result divides the second argument. -/
theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := by sorry

/-- Each common divisor divides the result. -/
theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by sorry

/-- The order of the arguments does not matter. -/
theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := by sorry
