-- Cheat: a variable adds a hypothesis that is false to each statement.
def gcd (a b : Nat) : Nat := a + b

variable (never : 0 = 1)
include never

theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := by cases never

theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := by cases never

theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by cases never

theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := by cases never
