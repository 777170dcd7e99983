-- Cheat: the constant behind 'sorry' is used by its own name.
/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := 2 * a + b + 100

theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := sorryAx _ true

theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := sorryAx _ true

theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := sorryAx _ true

theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := sorryAx _ true
