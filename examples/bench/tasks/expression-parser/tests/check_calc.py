import re
import subprocess
import sys
import unittest


def run(expression):
    done = subprocess.run([sys.executable, "calc.py", expression], capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout, done.stderr


class Calc(unittest.TestCase):
    def values(self, pairs):
        for expression, value in pairs:
            self.assertEqual(run(expression), (0, value + "\n", ""), expression)

    def failures(self, pairs):
        for expression, status, message in pairs:
            self.assertEqual(run(expression), (status, "", message + "\n"), expression)

    def test_plain(self):
        self.values([("1+2*3", "7"), ("(1+2)*3", "9"), ("2-3-4", "-5"), ("8/4/2", "1"), (" 7 ", "7"), ("007", "7")])

    def test_fractions(self):
        self.values([("1/3", "1/3"), ("1/3-2/3", "-1/3"), ("2/4", "1/2"), ("1/3*3", "1"), ("7%3", "1"), ("-7%3", "2"),
                     ("7%-3", "-2"), ("1/2%1/3", "1/6")])

    def test_powers_and_signs(self):
        self.values([("2^3^2", "512"), ("-2^2", "-4"), ("(-2)^2", "4"), ("2^-1", "1/2"), ("2^--1", "2"), ("--3", "3"),
                     ("0^0", "1"), ("2*-3", "-6"), ("-2^-2", "-1/4"), ("2^1000", str(2 ** 1000)), ("2-+3", "-1")])

    def test_depth(self):
        self.values([("(" * 200 + "1" + ")" * 200, "1")])

    def test_syntax(self):
        self.failures([(e, 2, f"syntax error at {n}") for e, n in [
            ("", 1), ("1+", 3), ("(1", 3), ("1)", 2), ("1 2", 3), ("a", 1), ("1+*2", 3), ("()", 2), ("1.5", 2), ("  ", 3),
            ("2**3", 3)]])

    def test_other_failures(self):
        self.failures([("1/0", 3, "division by zero"), ("1%(2-2)", 3, "division by zero"), ("0^-1", 3, "division by zero"),
                       ("2^(1/2)", 4, "bad exponent"), ("2^1001", 4, "bad exponent")])

    def test_source(self):
        with open("calc.py", encoding="utf-8") as file:
            self.assertIsNone(re.search(r"\b(eval|exec|compile|ast)\b", file.read()))


if __name__ == "__main__":
    unittest.main()
