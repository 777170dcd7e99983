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
def isPalindrome (s : List Char) : Bool := sameText (reverseOnto s []) s

theorem isPalindrome_iff (s : List Char) :
    isPalindrome s = true ↔ (dropSpaces s).reverse = dropSpaces s := by sorry

theorem isPalindrome_reverse (s : List Char) : isPalindrome s.reverse = isPalindrome s := by sorry

theorem isPalindrome_append_reverse (s : List Char) : isPalindrome (s ++ s.reverse) = true := by sorry
