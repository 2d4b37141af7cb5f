"""An agent that uses what the orchestrator offers to plugins, as its argument says."""

import json
import subprocess
import sys

HOW = sys.argv[1]
SCHEMA = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "The model."},
        "depth": {"type": "integer", "description": "How deep."},
    },
    "additionalProperties": False,
}


def send(frame, **rest):
    sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
    sys.stdout.flush()


def receive():
    return json.loads(sys.stdin.readline())


def check_writes(call, task):
    """Asks about some paths, and leaves the answers in the workspace."""
    workspace, answers = task["workspace"], {}
    paths = ["tests/a.py", "link/b.py", "src/c.py", "ralph.toml"]
    for number, path in enumerate([workspace + "/" + path for path in paths] + ["src/c.py"]):
        send("write_check", call=call, request=number, path=path)
        answer = receive()
        assert (answer["frame"], answer["request"]) == ("write_check_result", number), answer
        answers[path.replace(workspace + "/", "") if number < len(paths) else "relative"] = answer["refused"]
    with open(workspace + "/answers.json", "w") as file:
        json.dump(answers, file)


def use_tools(task):
    """Claims and leaves a note by the server that the orchestrator offers."""
    with open(task["scratch"] + "/tools.json") as file:
        command = json.load(file)["command"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(number, method, params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())["result"]

    names = [tool["name"] for tool in ask(1, "tools/list", {})["tools"]]
    ask(2, "tools/call", {"name": "note", "arguments": {"text": "the note of %d" % task["number"]}})
    if task["number"] == 2:
        open(task["workspace"] + "/done", "w").close()
    claimed = ask(3, "tools/call", {"name": "claim_complete", "arguments": {"message": "made it"}})
    server.stdin.close()
    server.wait()
    with open(task["workspace"] + "/tools-%d.json" % task["number"], "w") as file:
        json.dump({"names": names, "claimed": claimed, "prompt": task["prompt"]}, file)


def run(call, task):
    if HOW == "write checks":
        check_writes(call, task)
    if HOW == "tools":
        use_tools(task)
    send("done", call=call, report={"final_text": "<promise>COMPLETE</promise>" if HOW != "tools" else "ended"})


while True:
    line = sys.stdin.readline()
    if not line:
        break
    frame = json.loads(line)
    if frame["frame"] == "hello":
        assert "write_check" in frame["features"], frame
        send("hello", protocol=1, name="capabilities", provides=[
            {"kind": "agent", "name": "bot", "schema": SCHEMA},
            {"kind": "validator", "name": "strict", "schema": SCHEMA},
        ])
    elif frame["frame"] == "open" and frame["kind"] == "validator":
        send("opened", instance=frame["instance"], validator={"description": {"kind": "strict", "demands": "x"}})
    elif frame["frame"] == "open":
        send("opened", instance=frame["instance"], agent={"capabilities": {"free": True}})
    elif frame["frame"] == "call" and frame["method"] == "check":
        send("done", call=frame["call"], found="here")
    elif frame["frame"] == "call":
        run(frame["call"], frame["task"])
    elif frame["frame"] == "close":
        break
