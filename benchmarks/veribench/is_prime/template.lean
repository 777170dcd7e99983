/-- `n` is at least 2 and has no divisors except 1 and `n`. -/
def PrimeNumber (n : Nat) : Prop := 2 ≤ n ∧ ∀ d, d ∣ n → d = 1 ∨ d = n

/-- Whether `n` is prime, decided by trial division. -/
def isPrime (n : Nat) : Bool := sorry

/-- The program returns `true` for the prime numbers and for no others. -/
theorem isPrime_iff (n : Nat) : isPrime n = true ↔ PrimeNumber n := by sorry

/-- A product of two numbers above 1 is not prime. -/
theorem isPrime_mul (a b : Nat) (ha : 2 ≤ a) (hb : 2 ≤ b) : isPrime (a * b) = false := by sorry

/-- There is a prime number above each number. -/
theorem isPrime_unbounded (n : Nat) : ∃ p, n < p ∧ isPrime p = true := by sorry
