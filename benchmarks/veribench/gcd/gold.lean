/-- Euclid's algorithm with at most `fuel` steps. -/
def gcdSteps (fuel a b : Nat) : Nat :=
  match fuel with
  | 0 => a
  | fuel + 1 => if b = 0 then a else gcdSteps fuel b (a % b)

/-- The greatest common divisor of `a` and `b`; `gcd a 0 = a`. -/
def gcd (a b : Nat) : Nat := gcdSteps (b + 1) a b

theorem gcdSteps_dvd (fuel a b : Nat) (h : b < fuel) :
    gcdSteps fuel a b ∣ a ∧ gcdSteps fuel a b ∣ b := by
  induction fuel generalizing a b with
  | zero => omega
  | succ fuel ih =>
    unfold gcdSteps
    by_cases hb : b = 0
    · subst hb
      simp
    · rw [if_neg hb]
      have hlt : a % b < b := Nat.mod_lt a (by omega)
      have hr := ih b (a % b) (by omega)
      exact ⟨(Nat.dvd_mod_iff hr.1).mp hr.2, hr.1⟩

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
theorem gcd_dvd_left (a b : Nat) : gcd a b ∣ a := by
  exact (gcdSteps_dvd (b + 1) a b (by omega)).1

/-- The result divides the second argument. -/
theorem gcd_dvd_right (a b : Nat) : gcd a b ∣ b := by
  exact (gcdSteps_dvd (b + 1) a b (by omega)).2

/-- Each common divisor divides the result. -/
theorem gcd_greatest (a b d : Nat) (ha : d ∣ a) (hb : d ∣ b) : d ∣ gcd a b := by
  exact gcdSteps_greatest (b + 1) a b d ha hb

/-- The order of the arguments does not matter. -/
theorem gcd_comm (a b : Nat) : gcd a b = gcd b a := by
  exact Nat.dvd_antisymm
    (gcd_greatest b a _ (gcd_dvd_right a b) (gcd_dvd_left a b))
    (gcd_greatest a b _ (gcd_dvd_right b a) (gcd_dvd_left b a))
