/-- A list of `n` copies of `c`. -/
def copies (c : Char) : Nat → List Char
  | 0 => []
  | n + 1 => c :: copies c n

/-- Each run has a length above 0. -/
def AllPositive : List (Char × Nat) → Prop
  | [] => True
  | run :: rest => 0 < run.2 ∧ AllPositive rest

/-- Two runs that follow each other have different characters. -/
def NoRepeat : List (Char × Nat) → Prop
  | [] => True
  | [_] => True
  | a :: b :: rest => a.1 ≠ b.1 ∧ NoRepeat (b :: rest)

/-- The maximal runs of equal characters in `text`, as pairs of character and length. -/
def encode (text : List Char) : List (Char × Nat) := sorry

/-- The text in which each pair `(c, n)` stands for `n` copies of `c`. -/
def decode (runs : List (Char × Nat)) : List Char := sorry

/-- The decoder replaces the first pair by copies of its character. -/
theorem decode_cons (c : Char) (n : Nat) (rest : List (Char × Nat)) :
    decode ((c, n) :: rest) = copies c n ++ decode rest := by sorry

/-- The decoder gives the text back. -/
theorem decode_encode (text : List Char) : decode (encode text) = text := by sorry

/-- The encoder makes no empty runs. -/
theorem encode_positive (text : List Char) : AllPositive (encode text) := by sorry

/-- The runs that the encoder makes are maximal. -/
theorem encode_maximal (text : List Char) : NoRepeat (encode text) := by sorry
