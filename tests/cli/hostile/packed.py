"""What the adapter `command` does with output as text, packed as a plugin."""

import base64
import codecs
import json
import os
import select
import signal
import subprocess
import sys
import threading

LONGEST = 256 * 1024
out_lock = threading.Lock()
current = {"child": None, "cancelled": False}


def send(frame, **rest):
    with out_lock:
        sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
        sys.stdout.flush()


def feed(child, prompt):
    try:
        child.stdin.write(prompt)
        child.stdin.close()
    except OSError:
        pass


def interrupt():
    child = current["child"]
    if child is not None and child.poll() is None:
        os.killpg(child.pid, signal.SIGINT)


def pieces(child):
    """What it prints, until it is gone and has nothing more in the pipe, whoever else holds that."""
    pipe = child.stdout.fileno()
    while True:
        ready, _, _ = select.select([pipe], [], [], 0.05)
        if ready:
            piece = os.read(pipe, 65536)
            if not piece:
                child.wait()
                return
            yield piece
        elif child.poll() is not None:
            return


def run(call, program, task):
    prompt = task["prompt"].encode() if "prompt" in task else base64.b64decode(task["prompt_base64"])
    try:
        child = subprocess.Popen(
            program, cwd=task["workspace"], env=task["env"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        send("failed", call=call, **{"class": "unavailable"}, message=str(error))
        return
    current["child"] = child
    if current["cancelled"]:
        interrupt()
    threading.Thread(target=feed, args=(child, prompt), daemon=True).start()
    decoder, said = codecs.getincrementaldecoder("utf-8")("replace"), ""
    for piece in pieces(child):
        text = decoder.decode(piece)
        said = (said + text)[-LONGEST:]
        send("event", call=call, event={"type": "text", "text": text})
    status = child.returncode
    report = {"final_text": said, "exit": "exit %d" % status}
    if current["cancelled"]:
        send("failed", call=call, **{"class": "cancelled"}, message="ended", report=report)
    elif status != 0:
        message = "the agent ended with exit %d" % status
        send("failed", call=call, **{"class": "crashed"}, message=message, report=report)
    else:
        send("done", call=call, report=report)


program = None
for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        send("hello", protocol=1, name="packed", provides=[{"kind": "agent", "name": "command"}])
    elif frame["frame"] == "open":
        program = frame["config"]["program"]
        send("opened", instance=frame["instance"], agent={"summary": "runs " + program[0]})
    elif frame["frame"] == "call" and frame["method"] == "check":
        send("done", call=frame["call"], found="found " + program[0])
    elif frame["frame"] == "call":
        threading.Thread(
            target=run, args=(frame["call"], program, frame["task"]), daemon=True).start()
    elif frame["frame"] == "cancel":
        current["cancelled"] = True
        interrupt()
    elif frame["frame"] == "close":
        break
