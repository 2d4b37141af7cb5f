"""Prints the value of an arithmetic expression."""

import sys
from fractions import Fraction


class Failure(Exception):
    """Says why there is no value, and the exit status for it."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Parser:
    """Reads an expression from the left to the right and computes as it goes."""

    def __init__(self, text):
        self.text = text
        self.at = 0

    def peek(self):
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1
        return self.text[self.at:self.at + 1]

    def fail(self):
        raise Failure(f"syntax error at {self.at + 1}", 2)

    def whole(self):
        value = self.sum()
        if self.peek():
            self.fail()
        return value

    def sum(self):
        value = self.product()
        while self.peek() and self.peek() in "+-":
            sign = self.text[self.at]
            self.at += 1
            right = self.product()
            value = value + right if sign == "+" else value - right
        return value

    def product(self):
        value = self.unary()
        while self.peek() and self.peek() in "*/%":
            sign = self.text[self.at]
            self.at += 1
            right = self.unary()
            if sign == "*":
                value *= right
                continue
            if right == 0:
                raise Failure("division by zero", 3)
            value = value / right if sign == "/" else value - right * (value // right)
        return value

    def unary(self):
        sign = self.peek()
        if sign and sign in "+-":
            self.at += 1
            value = self.unary()
            return -value if sign == "-" else value
        return self.power()

    def power(self):
        base = self.atom()
        if self.peek() != "^":
            return base
        self.at += 1
        exponent = self.unary()
        if exponent.denominator != 1 or abs(exponent) > 1000:
            raise Failure("bad exponent", 4)
        if base == 0 and exponent < 0:
            raise Failure("division by zero", 3)
        return base ** int(exponent)

    def atom(self):
        first = self.peek()
        if first == "(":
            self.at += 1
            value = self.sum()
            if self.peek() != ")":
                self.fail()
            self.at += 1
            return value
        start = self.at
        while self.text[self.at:self.at + 1] and self.text[self.at] in "0123456789":
            self.at += 1
        if start == self.at:
            self.fail()
        return Fraction(int(self.text[start:self.at]))


def main():
    sys.setrecursionlimit(20000)
    sys.set_int_max_str_digits(0)
    try:
        print(Parser(sys.argv[1]).whole())
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.status)


main()
