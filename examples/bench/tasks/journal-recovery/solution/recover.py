"""Prints the state that a journal comes to."""

import re
import sys
import zlib

LINE = re.compile(rb"([0-9a-f]{8}) (([1-9][0-9]*) (set \S+ \S+|del \S+|begin|commit|abort))")


def read(lines):
    """Returns the state, and how many lines are good."""
    state, pending = {}, None
    for count, line in enumerate(lines):
        found = LINE.fullmatch(line[:-1]) if line.endswith(b"\n") else None
        if not found or int(found[1], 16) != zlib.crc32(found[2]) or int(found[3]) != count + 1:
            return state, count
        word, *rest = found[4].split(b" ")
        if (word == b"begin") != (pending is None) and word in (b"begin", b"commit", b"abort"):
            return state, count
        if word == b"begin":
            pending = dict(state)
        elif word == b"commit":
            state, pending = pending, None
        elif word == b"abort":
            pending = None
        else:
            target = state if pending is None else pending
            if word == b"set":
                target[rest[0]] = rest[1]
            else:
                target.pop(rest[0], None)
    return state, len(lines)


def main():
    with open(sys.argv[1], "rb") as file:
        text = file.read()
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    state, good = read(lines)
    out = sys.stdout.buffer
    for key in sorted(state):
        out.write(key + b"=" + state[key] + b"\n")
    out.write(f"# {good} records, {len(lines) - good} ignored\n".encode())


main()
