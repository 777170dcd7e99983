/-- An account with a balance that is never negative. -/
structure Account where
  balance : Nat
deriving DecidableEq, Repr

/-- An operation on an account. -/
inductive Op where
  | deposit (amount : Nat)
  | withdraw (amount : Nat)
deriving DecidableEq, Repr

/-- The sum of the amounts of all deposits. -/
def totalIn : List Op → Nat
  | [] => 0
  | .deposit n :: rest => n + totalIn rest
  | .withdraw _ :: rest => totalIn rest

/-- The sum of the amounts of all withdrawals. -/
def totalOut : List Op → Nat
  | [] => 0
  | .deposit _ :: rest => totalOut rest
  | .withdraw n :: rest => n + totalOut rest

/-- The account with `amount` added. -/
def deposit (a : Account) (amount : Nat) : Account := ⟨a.balance + amount⟩

/-- The account with `amount` taken off, or `none` if the balance is too small. -/
def withdraw (a : Account) (amount : Nat) : Option Account :=
  if amount ≤ a.balance then some ⟨a.balance - amount⟩ else none

/-- Apply all operations from left to right; `none` if one of them fails. -/
def applyAll (a : Account) (ops : List Op) : Option Account :=
  match ops with
  | [] => some a
  | .deposit n :: rest => applyAll (deposit a n) rest
  | .withdraw n :: rest =>
    match withdraw a n with
    | none => none
    | some b => applyAll b rest

/-- A withdrawal succeeds if the balance is large enough, and takes off the amount. -/
theorem withdraw_iff (a b : Account) (amount : Nat) :
    withdraw a amount = some b ↔ a.balance = b.balance + amount := by
  cases a with
  | mk x =>
    cases b with
    | mk y =>
      by_cases h : amount ≤ x
      · simp only [withdraw, if_pos h, Option.some.injEq, Account.mk.injEq]
        omega
      · simp only [withdraw, if_neg h, reduceCtorEq, false_iff]
        omega

/-- A deposit can be taken off again. -/
theorem withdraw_deposit (a : Account) (amount : Nat) :
    withdraw (deposit a amount) amount = some a := by
  rw [withdraw_iff]
  rfl

/-- Two lists of operations can be applied one after the other. -/
theorem applyAll_append (a : Account) (xs ys : List Op) :
    applyAll a (xs ++ ys) = (applyAll a xs).bind (fun b => applyAll b ys) := by
  induction xs generalizing a with
  | nil => rfl
  | cons op rest ih =>
    cases op with
    | deposit n => exact ih (deposit a n)
    | withdraw n =>
      simp only [List.cons_append, applyAll]
      cases withdraw a n with
      | none => rfl
      | some c => exact ih c

/-- No money appears or disappears. -/
theorem applyAll_balance (a b : Account) (ops : List Op) (h : applyAll a ops = some b) :
    b.balance + totalOut ops = a.balance + totalIn ops := by
  induction ops generalizing a with
  | nil =>
    simp only [applyAll, Option.some.injEq] at h
    subst h
    rfl
  | cons op rest ih =>
    cases op with
    | deposit n =>
      have hr := ih (deposit a n) h
      simp only [deposit, totalIn, totalOut] at hr ⊢
      omega
    | withdraw n =>
      simp only [applyAll] at h
      cases hw : withdraw a n with
      | none => simp [hw] at h
      | some c =>
        rw [hw] at h
        have hr := ih c h
        have hc := (withdraw_iff a c n).mp hw
        simp only [totalIn, totalOut]
        omega
