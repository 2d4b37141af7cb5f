import unittest

from roman import from_roman, to_roman


class Roman(unittest.TestCase):
    def test_known_pairs(self):
        for number, text in [(1, "I"), (4, "IV"), (14, "XIV"), (49, "XLIX"), (90, "XC"), (400, "CD"),
                             (944, "CMXLIV"), (1990, "MCMXC"), (2024, "MMXXIV"), (3999, "MMMCMXCIX")]:
            self.assertEqual(to_roman(number), text)
            self.assertEqual(from_roman(text), number)
            self.assertEqual(from_roman(text.lower()), number)

    def test_both_ways(self):
        for number in range(1, 4000):
            self.assertEqual(from_roman(to_roman(number)), number)

    def test_refused_numbers(self):
        for number in [0, -1, 4000, 1.0, 2.5, True, "1", None]:
            with self.assertRaises(ValueError):
                to_roman(number)

    def test_refused_texts(self):
        for text in ["", "IIII", "VX", "IC", "VV", "MMMM", "XIX ", "A", "IVI", "XCX", "0"]:
            with self.assertRaises(ValueError):
                from_roman(text)


if __name__ == "__main__":
    unittest.main()
