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

theorem balancedFrom_dyck (s : List Char) (h : Dyck s) :
    ∀ d t, balancedFrom d (s ++ t) = balancedFrom d t := by
  induction h with
  | empty => intro d t; rfl
  | other c h1 h2 => intro d t; simp [balancedFrom, h1, h2]
  | wrap s _ ih => intro d t; simp [balancedFrom, ih]
  | append s t _ _ ih1 ih2 => intro d u; rw [List.append_assoc, ih1, ih2]

theorem balancedFrom_count (s : List Char) :
    ∀ d, balancedFrom d s = true → countChar '(' s + d = countChar ')' s := by
  induction s with
  | nil => intro d h; simp [balancedFrom] at h; simp [countChar, h]
  | cons c rest ih =>
    intro d h
    by_cases h1 : c = '('
    · subst h1
      simp [balancedFrom] at h
      have := ih _ h
      simp [countChar]
      omega
    · by_cases h2 : c = ')'
      · subst h2
        cases d with
        | zero => simp [balancedFrom] at h
        | succ d =>
          simp [balancedFrom] at h
          have := ih _ h
          simp [countChar]
          omega
      · simp [balancedFrom, h1, h2] at h
        have := ih _ h
        simp [countChar, h1, h2]
        omega

theorem balanced_of_dyck (s : List Char) (h : Dyck s) : balanced s = true := by
  have h0 := balancedFrom_dyck s h 0 []
  rw [List.append_nil] at h0
  rw [balanced, h0]
  simp [balancedFrom]

theorem dyck_of_balanced (s : List Char) (h : balanced s = true) : Dyck s := by sorry

theorem balanced_count (s : List Char) (h : balanced s = true) :
    countChar '(' s = countChar ')' s := by
  have h0 := balancedFrom_count s 0 h
  omega
