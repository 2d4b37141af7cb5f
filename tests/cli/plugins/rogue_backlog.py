"""A format of backlogs, `STATUS ID CRITERION` a line, that misbehaves in one way."""

import json
import os
import sys
import time

HOW = sys.argv[1]


def send(frame, **rest):
    sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
    sys.stdout.flush()


def read(call, text):
    if HOW == "crash":
        os._exit(3)
    if HOW == "hang":
        time.sleep(600)
    if HOW == "garbage":
        print("Traceback (most recent call last):", flush=True)
        time.sleep(600)
    if HOW == "huge":
        send("done", call=call, backlog={"items": [], "more": "x" * (17 * 1024 * 1024)})
        time.sleep(600)
    if HOW == "other answer":
        send("done", call=call, text=text)
        time.sleep(600)
    if HOW == "fail":
        send("failed", call=call, **{"class": "crashed"}, message="not today")
        return
    if HOW == "fragile" and "boom" in text:
        os._exit(3)
    items, defects = [], []
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) < 3:
            defects.append({"message": "expected three words, found " + line})
            continue
        status, name, criterion = words
        items.append({"id": name, "title": name, "status": status, "criteria": [criterion]})
    if items and HOW == "no id":
        items[0]["id"] = " "
    if items and HOW == "blocked":
        items[0]["status"] = "blocked"
    send("done", call=call, backlog={"items": items, "defects": defects})
    if HOW == "restart":
        # Each call is served by another process.
        os._exit(0)


def edit(text, edits):
    if HOW == "ignore":
        return text
    for one in edits:
        lines = text.splitlines()
        for at, line in enumerate(lines):
            status, name, criterion = line.split(" ", 2)
            if one["edit"] == "set_status" and one["id"] == name:
                lines[at] = " ".join([one["status"], name, criterion])
        text = "".join(line + "\n" for line in lines)
    if HOW == "criteria":
        text = text.replace("it runs", "it crawls")
    if HOW == "lose":
        text = text.split("\n", 1)[0] + "\n"
    if HOW == "add":
        text += "pending evil it pays\n"
    if HOW == "garbage text":
        text = "nothing\n"
    return text


for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        send("hello", protocol=1, name="rogue", version="6", features=[], provides=[
            {"kind": "backlog", "name": "lines"}])
    elif frame["frame"] == "open":
        send("opened", instance=frame["instance"], backlog={"example": "pending a it works\n"})
    elif frame["frame"] == "call" and frame["method"] == "read_backlog":
        read(frame["call"], frame["text"])
    elif frame["frame"] == "call":
        send("done", call=frame["call"], edited={"text": edit(frame["text"], frame["edits"])})
    elif frame["frame"] == "close":
        break
