import os
import subprocess
import sys
import tempfile
import unittest
import zlib


def line(number, operation):
    rest = f"{number} {operation}".encode()
    return b"%08x " % zlib.crc32(rest) + rest + b"\n"


def journal(*operations):
    return b"".join(line(at + 1, operation) for at, operation in enumerate(operations))


class Recover(unittest.TestCase):
    def state(self, content, *expected):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "journal")
            with open(path, "wb") as file:
                file.write(content)
            done = subprocess.run([sys.executable, "recover.py", path], capture_output=True, timeout=20)
        self.assertEqual(done.stdout.decode().splitlines(), list(expected))
        self.assertEqual(done.returncode, 0)

    def test_good(self):
        self.state(b"", "# 0 records, 0 ignored")
        self.state(journal("set b 2", "set a 1", "set b 3", "del c"), "a=1", "b=3", "# 4 records, 0 ignored")
        self.state(journal("set a 1", "begin", "set b 2", "del a", "commit"), "b=2", "# 5 records, 0 ignored")
        self.state(journal("set a 1", "begin", "del a", "abort"), "a=1", "# 4 records, 0 ignored")

    def test_open_transaction(self):
        self.state(journal("set a 1", "begin", "set a 2"), "a=1", "# 3 records, 0 ignored")

    def test_torn_tail(self):
        good = journal("set a 1", "set b 2")
        self.state(good[:-1], "a=1", "# 1 records, 1 ignored")
        self.state(good + b"0000", "a=1", "b=2", "# 2 records, 1 ignored")

    def test_damage_ends_it(self):
        bad = journal("set a 1") + b"00000000 2 set a 2\n" + line(3, "set a 3")
        self.state(bad, "a=1", "# 1 records, 2 ignored")
        self.state(line(1, "set a 1") + line(3, "set a 3"), "a=1", "# 1 records, 1 ignored")
        self.state(line(1, "set a 1") + line(1, "set a 2"), "a=1", "# 1 records, 1 ignored")
        self.state(line(1, "set a 1").upper(), "# 0 records, 1 ignored")
        self.state(b"\xff\xfe\n" + line(1, "set a 1"), "# 0 records, 2 ignored")
        self.state(journal("set a 1", "set a"), "a=1", "# 1 records, 1 ignored")
        self.state(journal("set a 1") + b"\n", "a=1", "# 1 records, 1 ignored")

    def test_transactions_out_of_place(self):
        self.state(journal("begin", "set a 1", "begin", "commit"), "# 2 records, 2 ignored")
        self.state(journal("set a 1", "commit", "set a 2"), "a=1", "# 1 records, 2 ignored")
        self.state(journal("abort"), "# 0 records, 1 ignored")


if __name__ == "__main__":
    unittest.main()
