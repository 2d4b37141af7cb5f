"""A plugin that misbehaves in one way in the first iteration, and works in all others."""

import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1]
FIRST = os.environ.get("RALPH_ITERATION") == "1"


def rogue(how):
    return FIRST and HOW == how


def send(frame, **rest):
    sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
    sys.stdout.flush()


def text(call, text):
    send("event", call=call, event={"type": "text", "text": text})


def print_endless_line():
    sys.stdout.write("x" * (17 * 1024 * 1024))
    sys.stdout.flush()
    time.sleep(600)


def work(call, task):
    print("a word on standard error", file=sys.stderr, flush=True)
    if rogue("exit"):
        os._exit(3)
    if rogue("signal"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if rogue("garbage"):
        print("Traceback (most recent call last):", flush=True)
        time.sleep(600)
    if rogue("eof"):
        sys.stdout.close()
        os.close(1)
        sys.exit(0)
    if rogue("flood"):
        for number in range(100000):
            text(call, "flood %d\n" % number)
    if rogue("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    if rogue("leak"):
        subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        send("failed", call=call, **{"class": "crashed"}, message="it lost a child")
        return
    if rogue("oversized"):
        text(call, "x" * (17 * 1024 * 1024))
        time.sleep(600)
    if rogue("endless line"):
        print_endless_line()
    if rogue("other answer"):
        send("done", call=call, text="what is this?")
        time.sleep(600)
    if rogue("other call"):
        text(99, "whose?")
        time.sleep(600)
    if rogue("panic"):
        send("panicked", call=call, message="index out of range", location="bot.rs:7:1")
        return
    if rogue("secret"):
        text(call, "the key is " + task["env"]["BOT_KEY"] + "\n")
    if rogue("surrogate"):
        text(call, "half a pair: \ud83d.\n")
    if rogue("spends"):
        usage = {"cost": 2.5, "tokens": {"input": 10, "output": 5}}
        send("event", call=call, event={"type": "usage", "usage": usage})
        for line in sys.stdin:
            if json.loads(line)["frame"] == "cancel":
                send("failed", call=call, **{"class": "cancelled"}, message="ended")
                return
    if rogue("claims and fails"):
        text(call, "<promise>COMPLETE: all of it</promise>\n")
        report = {"final_text": "<promise>COMPLETE: all of it</promise>"}
        send("failed", call=call, **{"class": "crashed"}, message="too bad", report=report)
        return
    open(os.path.join(task["workspace"], "done"), "w").close()
    send("done", call=call, report={"final_text": "<promise>COMPLETE: made it</promise>"})


for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        if rogue("mute"):
            time.sleep(600)
        if rogue("endless hello"):
            print_endless_line()
        if rogue("other protocol"):
            send("hello", protocol=2, name="rogue", provides=[])
            time.sleep(600)
        send("hello", protocol=1, name="rogue", version="6", features=["of the future"], provides=[
            {"kind": "agent", "name": "bot"}])
    elif frame["frame"] == "open":
        if "steps" in frame["config"]:
            send("refused", instance=frame["instance"], key=["steps", "1"], message="too many steps")
        else:
            description = {"capabilities": {"cost": True, "tokens": True}}
            send("opened", instance=frame["instance"], agent=description)
    elif frame["frame"] == "call" and frame["method"] == "check":
        send("done", call=frame["call"], found="here")
    elif frame["frame"] == "call":
        work(frame["call"], frame["task"])
    elif frame["frame"] == "close":
        break
