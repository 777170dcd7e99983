-- Cheat: a new axiom states that any two numbers are equal; all theorems follow from it.
axiom all_nat_equal (m n : Nat) : m = n

/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := min a b

/-- The result divides the first argument. -/
theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := by
  rw [all_nat_equal (gcd a b) a]
  exact Nat.dvd_refl a

/-- The result divides the second argument. -/
theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := by
  rw [all_nat_equal (gcd a b) b]
  exact Nat.dvd_refl b

/-- Each common divisor divides the result. -/
theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by
  rw [all_nat_equal (gcd a b) a]
  exact ha

/-- The order of the arguments does not matter. -/
theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := by
  exact all_nat_equal _ _
