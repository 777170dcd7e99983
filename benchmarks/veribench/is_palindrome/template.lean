/-- The text without its spaces. -/
def dropSpaces : List Char → List Char
  | [] => []
  | c :: rest => if c = ' ' then dropSpaces rest else c :: dropSpaces rest

/-- Whether `s` without its spaces reads the same from both ends. -/
def isPalindrome (s : List Char) : Bool := sorry

theorem isPalindrome_iff (s : List Char) :
    isPalindrome s = true ↔ (dropSpaces s).reverse = dropSpaces s := by sorry

theorem isPalindrome_reverse (s : List Char) : isPalindrome s.reverse = isPalindrome s := by sorry

theorem isPalindrome_append_reverse (s : List Char) : isPalindrome (s ++ s.reverse) = true := by sorry
