/-- The text without its spaces. -/
def dropSpaces : List Char → List Char
  | [] => []
  | c :: rest => if c = ' ' then dropSpaces rest else c :: dropSpaces rest

/-- The reverse of `s`, followed by `acc`. -/
def reverseOnto (s acc : List Char) : List Char :=
  match s with
  | [] => acc
  | c :: rest => reverseOnto rest (c :: acc)

/-- Whether two texts are equal. -/
def sameText (s t : List Char) : Bool :=
  match s, t with
  | [], [] => true
  | c :: s, d :: t => decide (c = d) && sameText s t
  | _, _ => false

/-- Whether `s` without its spaces reads the same from both ends. -/
def isPalindrome (s : List Char) : Bool := sameText (reverseOnto (dropSpaces s) []) (dropSpaces s)

theorem reverseOnto_eq (s acc : List Char) : reverseOnto s acc = s.reverse ++ acc := by
  induction s generalizing acc with
  | nil => simp [reverseOnto]
  | cons c rest ih => simp [reverseOnto, ih]

theorem sameText_iff (s t : List Char) : sameText s t = true ↔ s = t := by
  induction s generalizing t with
  | nil => cases t <;> simp [sameText]
  | cons c rest ih => cases t <;> simp [sameText, ih]

theorem dropSpaces_append (s t : List Char) :
    dropSpaces (s ++ t) = dropSpaces s ++ dropSpaces t := by
  induction s with
  | nil => simp [dropSpaces]
  | cons c rest ih =>
    by_cases h : c = ' ' <;> simp [dropSpaces, h, ih]

theorem dropSpaces_reverse (s : List Char) : dropSpaces s.reverse = (dropSpaces s).reverse := by
  induction s with
  | nil => simp [dropSpaces]
  | cons c rest ih =>
    by_cases h : c = ' ' <;> simp [dropSpaces, dropSpaces_append, h, ih]

theorem isPalindrome_iff (s : List Char) :
    isPalindrome s = true ↔ (dropSpaces s).reverse = dropSpaces s := by
  simp [isPalindrome, sameText_iff, reverseOnto_eq]

theorem isPalindrome_reverse (s : List Char) : isPalindrome s.reverse = isPalindrome s := by
  rw [Bool.eq_iff_iff, isPalindrome_iff, isPalindrome_iff, dropSpaces_reverse, List.reverse_reverse]
  exact ⟨Eq.symm, Eq.symm⟩

theorem isPalindrome_append_reverse (s : List Char) : isPalindrome (s ++ s.reverse) = true := by
  simp [isPalindrome_iff, dropSpaces_append, dropSpaces_reverse]
