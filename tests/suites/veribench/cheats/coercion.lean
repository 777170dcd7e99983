-- Cheat: results are of a type with one value, and a coercion hides it.
inductive Only where
  | one

instance : DecidableEq Only := fun | .one, .one => isTrue rfl
instance (n : Nat) : OfNat Only n := ⟨.one⟩
instance : Coe Nat Only := ⟨fun _ => .one⟩
instance : Dvd Only := ⟨fun _ _ => True⟩

/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (_ _ : Nat) : Only := .one

theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ (a : Only) := trivial

theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ (b : Only) := trivial

theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : (d : Only) ∣ gcd a b := trivial

theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := rfl
