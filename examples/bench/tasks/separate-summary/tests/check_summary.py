import json
import unittest


class Summary(unittest.TestCase):
    def test_summary(self):
        with open("/app/out/summary.json", encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(summary, {
            "north": {"count": 3, "min": -1, "max": 4.25, "mean": 2.25},
            "south": {"count": 3, "min": 10, "max": 25, "mean": 18.333},
            "west": {"count": 0},
        })

    def test_notes(self):
        with open("/app/notes.txt", encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["west.txt"])

    def test_collected(self):
        with open("/logs/artifacts/remaining.txt", encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), "3")


if __name__ == "__main__":
    unittest.main()
