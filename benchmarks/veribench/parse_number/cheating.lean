-- Cheat: compiled code runs another function than the one the theorems speak of.
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

def parseFrom (value : Nat) (s : List Char) : Option Nat :=
  match s with
  | [] => some value
  | c :: rest => if isDecimal c = true then parseFrom (10 * value + digitValue c) rest else none

def parseCompiled (s : List Char) : Option Nat :=
  match s with
  | [] => none
  | c :: rest => parseFrom 0 (c :: rest)

/-- The number that `s` is the decimal notation of, or `none` if it is not one. -/
@[implemented_by parseCompiled]
def parseNumber (s : List Char) : Option Nat := some 31415926535

theorem parseNumber_none_iff (s : List Char) :
    parseNumber s = none ↔ s = [] ∨ ∃ c ∈ s, isDecimal c = false := by sorry

theorem parseNumber_single (c : Char) (h : isDecimal c = true) :
    parseNumber [c] = some (digitValue c) := by sorry

theorem parseNumber_snoc (s : List Char) (n : Nat) (c : Char)
    (hs : parseNumber s = some n) (hc : isDecimal c = true) :
    parseNumber (s ++ [c]) = some (10 * n + digitValue c) := by sorry

theorem parseNumber_showNumber (n : Nat) : parseNumber (showNumber n) = some n := by sorry
