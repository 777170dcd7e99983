namespace Program

def first_longer (words : List String) (end_ : Int) : Option String :=
  match words with
  | [] => none
  | word :: rest => if end_ < (word.length : Int) then some word else first_longer rest end_

end Program
