"""A validator that accepts, and names proof.txt with the keys of its argument."""

import json
import os
import sys

KEYS = json.loads(sys.argv[1])
DESCRIPTION = {"description": {"kind": "any", "demands": "proof.txt"}}

for line in sys.stdin:
    frame = json.loads(line)
    answer = None
    if frame["frame"] == "hello":
        provides = [{"kind": "validator", "name": "any"}]
        answer = {"frame": "hello", "protocol": 1, "name": "mine", "provides": provides}
    elif frame["frame"] == "open":
        answer = {"frame": "opened", "instance": frame["instance"], "validator": DESCRIPTION}
    elif frame["frame"] == "call" and frame["method"] == "check":
        answer = {"frame": "done", "call": frame["call"], "found": ""}
    elif frame["frame"] == "call":
        path = os.path.join(frame["context"]["workspace"], "proof.txt")
        verdict = {"verdict": "accepted", "summary": "seen", "evidence": [{"path": path, **KEYS}]}
        if not os.path.exists(path):
            verdict = {"verdict": "rejected", "reasons": ["write proof.txt"]}
        answer = {"frame": "done", "call": frame["call"], "verdict": verdict}
    elif frame["frame"] == "close":
        break
    if answer:
        print(json.dumps(answer), flush=True)
