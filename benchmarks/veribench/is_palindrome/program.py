def is_palindrome(text):
    """Tell if the text reads the same from both ends when spaces are left out."""
    letters = [letter for letter in text if letter != " "]
    left, right = 0, len(letters) - 1
    while left < right:
        if letters[left] != letters[right]:
            return False
        left += 1
        right -= 1
    return True
