/-- `n` is at least 2 and has no divisors except 1 and `n`. -/
def PrimeNumber (n : Nat) : Prop := 2 ≤ n ∧ ∀ d, d ∣ n → d = 1 ∨ d = n

/-- No `d` with `2 ≤ d < k` divides `n`. -/
def noDivisorBelow (n k : Nat) : Bool :=
  match k with
  | 0 => true
  | k + 1 => (decide (k < 2) || decide (n % k ≠ 0)) && noDivisorBelow n k

/-- Whether `n` is prime, decided by trial division. -/
def isPrime (n : Nat) : Bool := decide (2 ≤ n) && noDivisorBelow n n

theorem noDivisorBelow_iff (n k : Nat) :
    noDivisorBelow n k = true ↔ ∀ d, 2 ≤ d → d < k → n % d ≠ 0 := by
  induction k with
  | zero => simp [noDivisorBelow]
  | succ k ih =>
    simp only [noDivisorBelow, Bool.and_eq_true, Bool.or_eq_true, decide_eq_true_eq, ih]
    constructor
    · intro ⟨h1, h2⟩ d hd hk
      by_cases he : d = k
      · subst he
        cases h1 with
        | inl h => omega
        | inr h => exact h
      · exact h2 d hd (by omega)
    · intro h
      refine ⟨?_, fun d hd hk => h d hd (by omega)⟩
      by_cases hk : k < 2
      · exact Or.inl hk
      · exact Or.inr (h k (by omega) (by omega))

/-- The program returns `true` for the prime numbers and for no others. -/
theorem isPrime_iff (n : Nat) : isPrime n = true ↔ PrimeNumber n := by
  simp only [isPrime, Bool.and_eq_true, decide_eq_true_eq, noDivisorBelow_iff, PrimeNumber]
  constructor
  · intro ⟨h2, h⟩
    refine ⟨h2, fun d hd => ?_⟩
    have hle : d ≤ n := Nat.le_of_dvd (by omega) hd
    have hpos : 0 < d := Nat.pos_of_dvd_of_pos hd (by omega)
    by_cases h1 : d = 1
    · exact Or.inl h1
    · by_cases hn : d = n
      · exact Or.inr hn
      · exact absurd (Nat.mod_eq_zero_of_dvd hd) (h d (by omega) (by omega))
  · intro ⟨h2, h⟩
    refine ⟨h2, fun d hd hlt hm => ?_⟩
    cases h d (Nat.dvd_of_mod_eq_zero hm) <;> omega

/-- A product of two numbers above 1 is not prime. -/
theorem isPrime_mul (a b : Nat) (ha : 2 ≤ a) (hb : 2 ≤ b) : isPrime (a * b) = false := by
  cases hp : isPrime (a * b) with
  | false => rfl
  | true =>
    have hle : a * 2 ≤ a * b := Nat.mul_le_mul_left a hb
    cases ((isPrime_iff _).mp hp).2 a (Nat.dvd_mul_right a b) <;> omega

/-- There is a prime number above each number. -/
theorem isPrime_unbounded (n : Nat) : ∃ p, n < p ∧ isPrime p = true := by sorry
