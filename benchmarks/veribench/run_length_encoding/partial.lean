-- Partial: two theorems are not proved.
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

/-- Put `c` in front of the text that some runs stand for. -/
def push (c : Char) : List (Char × Nat) → List (Char × Nat)
  | [] => [(c, 1)]
  | (d, n) :: rest => if c = d then (d, n + 1) :: rest else (c, 1) :: (d, n) :: rest

/-- The maximal runs of equal characters in `text`, as pairs of character and length. -/
def encode (text : List Char) : List (Char × Nat) :=
  match text with
  | [] => []
  | c :: rest => push c (encode rest)

/-- Put `n` copies of `c` in front of `text`. -/
def addCopies (c : Char) (n : Nat) (text : List Char) : List Char :=
  match n with
  | 0 => text
  | n + 1 => c :: addCopies c n text

/-- The text in which each pair `(c, n)` stands for `n` copies of `c`. -/
def decode (runs : List (Char × Nat)) : List Char :=
  match runs with
  | [] => []
  | (c, n) :: rest => addCopies c n (decode rest)

theorem addCopies_eq (c : Char) (n : Nat) (text : List Char) :
    addCopies c n text = copies c n ++ text := by
  induction n with
  | zero => rfl
  | succ n ih => simp [addCopies, copies, ih]

theorem decode_push (c : Char) (runs : List (Char × Nat)) :
    decode (push c runs) = c :: decode runs := by
  cases runs with
  | nil => rfl
  | cons run rest =>
    obtain ⟨d, n⟩ := run
    by_cases h : c = d
    · subst h
      simp [push, decode, addCopies]
    · simp [push, decode, addCopies, h]

/-- The decoder replaces the first pair by copies of its character. -/
theorem decode_cons (c : Char) (n : Nat) (rest : List (Char × Nat)) :
    decode ((c, n) :: rest) = copies c n ++ decode rest := by
  exact addCopies_eq c n (decode rest)

/-- The decoder gives the text back. -/
theorem decode_encode (text : List Char) : decode (encode text) = text := by
  induction text with
  | nil => rfl
  | cons c rest ih => rw [encode, decode_push, ih]

/-- The encoder makes no empty runs. -/
theorem encode_positive (text : List Char) : AllPositive (encode text) := by sorry

/-- The runs that the encoder makes are maximal. -/
theorem encode_maximal (text : List Char) : NoRepeat (encode text) := by sorry
