namespace Program

def divmod_pair (a : Int) (b : Int) : Int × Int := (Int.fdiv a b, Int.fmod a b)

end Program
