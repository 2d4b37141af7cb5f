"""A plugin that answers the methods of each kind that others leave out, as its argument says."""

import json
import sys
import time

HOW = sys.argv[1]
KIND = {"validator": "validator", "handoff": "agent", "warns": "agent", "unknown words": "agent"}.get(HOW, "detector")
VALIDATOR = {
    "description": {"kind": "v", "demands": "nothing overrides the check"},
    "reserved_paths": ["check.override"],
}
DESCRIPTIONS = {
    "validator": VALIDATOR,
    "agent": {"summary": "a", "capabilities": {"cost": True} if HOW == "unknown words" else {"free": True}},
    "detector": {"instructions": "say DONE", "forms": ["DONE"], "observes": HOW == "hangs"},
}


def send(frame, **rest):
    print(json.dumps({"frame": frame, **rest}), flush=True)


def is_protected(call, path):
    send("write_check", call=call, request=1, path=path)
    return json.loads(sys.stdin.readline())["refused"]


def call(frame):
    number, method = frame["call"], frame["method"]
    if method == "check":
        send("done", call=number, found="found")
    elif method == "find_setup_problems":
        seen = "kept.txt" if is_protected(number, "kept.txt") else "nothing"
        send("done", call=number, setup_problems=[{"message": "it protects " + seen}])
    elif method == "validate":
        changes = frame["context"]["protected_changes"]
        if changes:
            verdict = {"verdict": "rejected", "reasons": [changes[0]["path"] + " appeared"]}
        else:
            verdict = {"verdict": "accepted", "summary": "ok"}
        send("done", call=number, verdict=verdict)
    elif method == "run" and HOW == "unknown words":
        usage = {"cost": 0.25, "tokens": {"input": 100, "output": 10}}
        for _ in range(3):
            send("event", call=number, event={"type": "claim", "kind": "partly", "text": "x"})
            send("event", call=number, event={"type": "dream", "text": "x"})
        send("failed", call=number, **{"class": "bored"}, message="too dull", report={"usage": usage})
    elif method == "run" and HOW == "warns":
        for at in range(4000):
            send("event", call=number, event={"type": "warning", "message": "it warns of %d" % (at // 2)})
        with open(frame["task"]["workspace"] + "/work.txt", "w") as file:
            file.write("x")
        send("done", call=number, report={"final_text": "<promise>COMPLETE: x</promise>"})
    elif method == "run":
        send("event", call=number, event={"type": "text", "text": "x"})
    elif method == "observe":
        time.sleep(600)
    elif method == "inspect":
        claim = {"kind": "complete", "detector": "d", "source": "message", "text": "DONE"}
        said = "DONE" in (frame["input"].get("final_text") or "")
        unknown = dict(claim, kind="partly")
        send("done", call=number, findings={"claims": [unknown, claim] if said else []})
    elif method == "strip_claims":
        send("done", call=number, text=frame["prompt"])


for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        features = ["setup_problems"]
        send("hello", protocol=1, name="m", version="1", features=features, provides=[{"kind": KIND, "name": "m"}])
    elif frame["frame"] == "open":
        send("opened", instance=frame["instance"], **{KIND: DESCRIPTIONS[KIND]})
    elif frame["frame"] == "call":
        call(frame)
    elif frame["frame"] == "cancel" and HOW == "handoff":
        with open(sys.argv[2], "w") as file:
            file.write(frame["reason"])
        send("failed", call=frame["call"], **{"class": "cancelled"}, message="c")
    elif frame["frame"] == "close":
        break
