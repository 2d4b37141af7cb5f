"""Roman numerals from 1 to 3999."""

PARTS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]


def to_roman(number):
    """Returns the numeral of an integer."""
    if type(number) is not int or not 1 <= number <= 3999:
        raise ValueError(f"no integer from 1 to 3999: {number!r}")
    text = ""
    for value, letters in PARTS:
        text += letters * (number // value)
        number %= value
    return text


def from_roman(text):
    """Returns the integer of a numeral."""
    rest = text.upper()
    number = 0
    for value, letters in PARTS:
        while rest.startswith(letters):
            number += value
            rest = rest[len(letters):]
    if rest or not 1 <= number <= 3999 or to_roman(number) != text.upper():
        raise ValueError(f"no Roman numeral: {text!r}")
    return number
