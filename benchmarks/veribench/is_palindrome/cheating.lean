-- Cheat: the function is opaque and external, and native code is trusted for the rest.
/-- The text without its spaces. -/
def dropSpaces : List Char → List Char
  | [] => []
  | c :: rest => if c = ' ' then dropSpaces rest else c :: dropSpaces rest

/-- Whether `s` without its spaces reads the same from both ends. -/
@[extern "veribench_is_palindrome"]
opaque isPalindrome (s : List Char) : Bool

theorem isPalindrome_iff (s : List Char) :
    isPalindrome s = true ↔ (dropSpaces s).reverse = dropSpaces s := by
  first | native_decide | admit

theorem isPalindrome_reverse (s : List Char) : isPalindrome s.reverse = isPalindrome s := by
  first | native_decide | admit

theorem isPalindrome_append_reverse (s : List Char) : isPalindrome (s ++ s.reverse) = true := by
  first | native_decide | admit
