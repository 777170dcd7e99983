namespace Program

def is_even (n : Int) : Bool := n % 2 == 0

end Program
