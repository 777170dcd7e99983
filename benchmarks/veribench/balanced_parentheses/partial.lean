/-- The texts with balanced parentheses, by their grammar. -/
inductive Dyck : List Char → Prop where
  | empty : Dyck []
  | other (c : Char) : c ≠ '(' → c ≠ ')' → Dyck [c]
  | wrap (s : List Char) : Dyck s → Dyck ('(' :: (s ++ [')']))
  | append (s t : List Char) : Dyck s → Dyck t → Dyck (s ++ t)

/-- How often the character `c` is in a text. -/
def countChar (c : Char) : List Char → Nat
  | [] => 0
  | d :: rest => (if d = c then 1 else 0) + countChar c rest

/-- Whether `s` closes exactly `depth` parentheses that are open before it. -/
def balancedFrom (depth : Nat) (s : List Char) : Bool :=
  match s with
  | [] => decide (depth = 0)
  | c :: rest =>
    if c = '(' then balancedFrom (depth + 1) rest
    else if c = ')' then
      match depth with
      | 0 => false
      | d + 1 => balancedFrom d rest
    else balancedFrom depth rest

/-- Whether the parentheses of `s` are balanced. -/
def balanced (s : List Char) : Bool := balancedFrom 0 s

theorem balanced_of_dyck (s : List Char) (h : Dyck s) : balanced s = true := by sorry

theorem dyck_of_balanced (s : List Char) (h : balanced s = true) : Dyck s := by sorry

theorem balanced_count (s : List Char) (h : balanced s = true) :
    countChar '(' s = countChar ')' s := by sorry
