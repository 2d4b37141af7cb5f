"""An agent with the mistake that its argument names, as its author may make it."""

import json
import os
import signal
import sys
import time

HOW = sys.argv[1]
ENDED = []


def send(frame, **rest):
    sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
    sys.stdout.flush()


def event(call, **rest):
    send("event", call=call, event=rest)


def fail(call, word, message):
    send("failed", call=call, **{"class": word}, message=message)


def run(call, config):
    if HOW == "stdout":
        print("Loading weights", flush=True)
    if HOW == "bad frame":
        event(call, type="text")
    if HOW == "no result":
        send("done", call=call)
        return
    if HOW == "uncaught":
        print("Traceback: KeyError: 'prompt'", file=sys.stderr, flush=True)
        sys.exit(1)
    if HOW == "exit 0":
        os._exit(0)
    if HOW == "abort":
        os.abort()
    if HOW == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if HOW == "large event":
        event(call, type="text", text="x" * 100_000_000)
    if HOW == "many events":
        for _ in range(100_000):
            sys.stdout.write('{"frame":"event","call":%d,"event":{"type":"text","text":"x"}}\n' % call)
        sys.stdout.flush()
    if HOW == "hangs":
        send("result", call=call, report={"final_text": config.get("says", "")})
        time.sleep(600)
    if HOW == "other frame":
        send("result", call=call)
    if HOW == "typos":
        event(call, type="txt", text="x")
        event(call, type="txt", text="x")
    if HOW == "usage falls":
        for cost in (0.5, 0.25):
            event(call, type="usage", usage={"cost": cost})
    if HOW == "cost as text":
        event(call, type="usage", usage={"cost": "0.1"})
    if HOW == "line break":
        print(json.dumps({"frame": "done", "call": call, "report": {}}, indent=2), flush=True)
        time.sleep(600)
    if HOW == "no session":
        event(call, type="session", id="s-1")
        for line in sys.stdin:
            if json.loads(line)["frame"] == "cancel":
                fail(call, "cancelled", "ended")
                return
    if HOW == "wrong class":
        fail(call, "broken", "it did not work")
        return
    if HOW == "wrong final text":
        send("done", call=call, report={"final_text": "something else"})
        return
    if HOW == "ignores cancel":
        event(call, type="text", text="begun")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    send("done", call=call, report={"final_text": config.get("says", "")})
    if HOW == "late emit":
        event(call, type="text", text="too late")
        time.sleep(600)


CONFIG = {}
for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        if HOW == "no flush":
            time.sleep(600)
        protocol = 2 if HOW == "other version" else 1
        provides = [] if HOW == "no items" else [{"kind": "agent", "name": "bot"}]
        if HOW == "validator":
            provides = [{"kind": "validator", "name": "bot"}]
        if HOW == "wrong kind":
            provides = [{"kind": "agnet", "name": "bot"}]
        if HOW == "item name":
            provides = [{"kind": "agent", "name": "my bot\033[31m"}]
        if HOW == "twice":
            provides = provides * 2
        name = "mis\033[31mtakes" if HOW == "own name" else "mistakes"
        send("helo" if HOW == "helo" else "hello", protocol=protocol, name=name, provides=provides)
    elif frame["frame"] == "open":
        CONFIG = frame["config"]
        if HOW == "dies in open":
            os.abort()
        if HOW == "mute in open":
            time.sleep(600)
        if HOW == "refuses":
            send("refused", instance=frame["instance"], key=["says"], message="expected a number")
        elif HOW == "typos":
            send("opened", instance=frame["instance"], agent={
                "capabilities": {"free": True, "tool_cals": True}})
        elif HOW in ("wrong item", "validator"):
            send("opened", instance=frame["instance"], validator={
                "description": {"kind": "x", "demands": "y"}})
        elif HOW == "no item":
            send("opened", instance=frame["instance"])
        else:
            send("opened", instance=frame["instance"], agent={"capabilities": {"free": True}})
    elif frame["frame"] == "call" and frame["method"] == "check":
        send("done", call=frame["call"], found="here")
    elif frame["frame"] == "call" and frame["method"] == "validate":
        send("done", call=frame["call"], verdict={"verdict": "error", "message": "no database"})
    elif frame["frame"] == "call":
        run(frame["call"], CONFIG)
    elif frame["frame"] == "close":
        break
