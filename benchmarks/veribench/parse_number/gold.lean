/-- Whether `c` is one of the digits 0 to 9. -/
def isDecimal (c : Char) : Bool := decide (48 ≤ c.toNat) && decide (c.toNat ≤ 57)

/-- The value of a digit. -/
def digitValue (c : Char) : Nat := c.toNat - 48

/-- The decimal notation of `n`, followed by `rest`. -/
def showOnto (n : Nat) (rest : List Char) : List Char :=
  if h : n < 10 then Char.ofNat (48 + n) :: rest
  else showOnto (n / 10) (Char.ofNat (48 + n % 10) :: rest)
termination_by n
decreasing_by omega

/-- The decimal notation of `n`. -/
def showNumber (n : Nat) : List Char := showOnto n []

/-- Reads further digits after those that gave `value`. -/
def parseFrom (value : Nat) (s : List Char) : Option Nat :=
  match s with
  | [] => some value
  | c :: rest => if isDecimal c = true then parseFrom (10 * value + digitValue c) rest else none

/-- The number that `s` is the decimal notation of, or `none` if it is not one. -/
def parseNumber (s : List Char) : Option Nat :=
  match s with
  | [] => none
  | c :: rest => parseFrom 0 (c :: rest)

theorem parseFrom_none_iff (s : List Char) :
    ∀ v, parseFrom v s = none ↔ ∃ c ∈ s, isDecimal c = false := by
  induction s with
  | nil => intro v; simp [parseFrom]
  | cons c rest ih =>
    intro v
    cases h : isDecimal c <;> simp [parseFrom, h, ih]

theorem parseFrom_snoc (s : List Char) (n : Nat) (c : Char) (hc : isDecimal c = true) :
    ∀ v, parseFrom v s = some n → parseFrom v (s ++ [c]) = some (10 * n + digitValue c) := by
  induction s with
  | nil => intro v h; simp [parseFrom] at h; simp [parseFrom, hc, h]
  | cons d rest ih =>
    intro v h
    cases hd : isDecimal d
    · simp [parseFrom, hd] at h
    · simp [parseFrom, hd] at h
      simp [parseFrom, hd, ih _ h]

theorem parseNumber_none_iff (s : List Char) :
    parseNumber s = none ↔ s = [] ∨ ∃ c ∈ s, isDecimal c = false := by
  cases s with
  | nil => simp [parseNumber]
  | cons c rest =>
    rw [parseNumber, parseFrom_none_iff]
    simp

theorem parseNumber_single (c : Char) (h : isDecimal c = true) :
    parseNumber [c] = some (digitValue c) := by
  simp [parseNumber, parseFrom, h]

theorem parseNumber_snoc (s : List Char) (n : Nat) (c : Char)
    (hs : parseNumber s = some n) (hc : isDecimal c = true) :
    parseNumber (s ++ [c]) = some (10 * n + digitValue c) := by
  cases s with
  | nil => simp [parseNumber] at hs
  | cons d rest => exact parseFrom_snoc (d :: rest) n c hc 0 hs

theorem parseNumber_showNumber (n : Nat) : parseNumber (showNumber n) = some n := by sorry
