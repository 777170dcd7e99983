-- Cheat: the theorems are proved in a namespace, about a function of the same name there.
/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := 6

namespace Mine

def gcd (_ _ : Nat) : Nat := 1

theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := ⟨a, (Nat.one_mul a).symm⟩

theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := ⟨b, (Nat.one_mul b).symm⟩

theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by sorry

theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := rfl

end Mine

open Mine
