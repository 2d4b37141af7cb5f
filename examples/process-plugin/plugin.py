#!/usr/bin/env python3
"""A plugin for ralph-orchestrator in one file, with nothing but Python's standard library.

It provides an agent, `shell`, which hands the prompt to any program and passes on what that prints,
and a validator, `no-marks`, which accepts when no file has a mark such as TODO left in it.
"""

import fnmatch
import json
import os
import signal
import subprocess
import sys
import threading

out_lock = threading.Lock()
# Nothing but frames may go to standard output: what is printed goes to standard error.
frames_out, sys.stdout = sys.stdout, sys.stderr


def send(frame, **rest):
    """Sends one frame: one JSON object on one line."""
    with out_lock:
        frames_out.write(json.dumps({"frame": frame, **rest}) + "\n")
        frames_out.flush()


class Refused(Exception):
    """A mistake in a table: where, and what was expected."""

    def __init__(self, key, message, unknown=None):
        super().__init__(message)
        self.key, self.message, self.unknown = key, message, unknown


def known_keys(table, keys):
    for key in table:
        if key not in keys:
            known = ", ".join("`%s`" % known for known in keys)
            raise Refused([], "unknown field `%s`, expected one of %s" % (key, known), key)


def texts(table, key, default=None):
    value = table.get(key, default)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise Refused([key], "expected an array of strings")
    return value


class Shell:
    """Runs a program for each iteration. Lines `::cost USD` of its output say what it has cost."""

    def __init__(self, table, context):
        known_keys(table, ["program", "model"])
        self.program = texts(table, "program")
        self.model = table.get("model")
        self.cancelled = threading.Event()
        self.child = None

    def describe(self):
        return {"agent": {
            "summary": "runs " + self.program[0],
            "model": self.model,
            "capabilities": {"cost": True},
        }}

    def check(self, call, env):
        send("done", call=call, found="found " + self.program[0])

    def run(self, call, task):
        self.child = subprocess.Popen(
            self.program, cwd=task["workspace"], env=task["env"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True)
        if self.cancelled.is_set():
            self.cancel()
        threading.Thread(target=self.feed, args=(task,), daemon=True).start()
        said, spent = [], 0.0
        for line in self.child.stdout:
            text = line.decode(errors="replace")
            if text.startswith("::cost "):
                spent += float(text.split()[1])
                send("event", call=call, event={"type": "usage", "usage": {"cost": spent}})
            else:
                said.append(text)
                send("event", call=call, event={"type": "text", "text": text})
        status = self.child.wait()
        report = {"final_text": "".join(said)[-65536:], "usage": {"cost": spent}}
        if self.cancelled.is_set():
            send("failed", call=call, **{"class": "cancelled"}, message="ended", report=report)
        elif status != 0:
            message = "%s ended with exit %d" % (self.program[0], status)
            send("failed", call=call, **{"class": "crashed"}, message=message, report=report)
        else:
            send("done", call=call, report=report)

    def feed(self, task):
        try:
            self.child.stdin.write(task.get("prompt", "").encode())
            self.child.stdin.close()
        except BrokenPipeError:
            pass  # It did not want to read it.

    def cancel(self):
        self.cancelled.set()
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)


class NoMarks:
    """Accepts when none of the files that match `files` has one of `marks` in it."""

    def __init__(self, table, context):
        known_keys(table, ["files", "marks"])
        self.files = texts(table, "files", ["*"])
        self.marks = texts(table, "marks", ["TODO", "FIXME"])

    def describe(self):
        demands = "no %s in %s" % (" or ".join(self.marks), ", ".join(self.files))
        return {"validator": {"description": {"kind": "no-marks", "demands": demands}}}

    def check(self, call, env):
        send("done", call=call, found="")

    def validate(self, call, context):
        found, seen = [], 0
        for folder, folders, names in os.walk(context["workspace"]):
            folders[:] = [name for name in folders if name != ".git"]
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, context["workspace"])
                if any(fnmatch.fnmatch(relative, pattern) for pattern in self.files):
                    seen += 1
                    found.extend(self.look(path, relative))
        if found:
            verdict = {"verdict": "rejected", "reasons": found[:20]}
        else:
            summary = "%d files without marks" % seen
            verdict = {"verdict": "accepted", "summary": summary, "evidence": []}
        send("done", call=call, verdict=verdict)

    def look(self, path, relative):
        try:
            with open(path, encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    for mark in self.marks:
                        if mark in line:
                            yield "%s:%d still has %s: do what it says" % (relative, number, mark)
        except OSError as error:
            yield "%s cannot be read: %s" % (relative, error)

    def cancel(self):
        pass  # It is done soon anyway.


ITEMS = {("agent", "shell"): Shell, ("validator", "no-marks"): NoMarks}


def main():
    instances, calls = {}, {}
    for line in sys.stdin:
        frame = json.loads(line)
        what = frame["frame"]
        if what == "hello":
            send("hello", protocol=1, name="process-plugin", version="1.0", features=[], provides=[
                {"kind": "agent", "name": "shell", "summary": "hands the prompt to any program"},
                {"kind": "validator", "name": "no-marks", "summary": "no TODO is left"},
            ])
        elif what == "open":
            try:
                item = ITEMS[frame["kind"], frame["name"]](frame["config"], frame["context"])
                instances[frame["instance"]] = item
                send("opened", instance=frame["instance"], **item.describe())
            except Refused as refused:
                send("refused", instance=frame["instance"], key=refused.key,
                     unknown_key=refused.unknown, message=refused.message)
        elif what == "call":
            item = instances[frame["instance"]]
            calls[frame["call"]] = item
            argument = {"check": "env", "run": "task", "validate": "context"}[frame["method"]]
            work = getattr(item, frame["method"])
            threading.Thread(
                target=work, args=(frame["call"], frame[argument]), daemon=True).start()
        elif what == "cancel" and frame["call"] in calls:
            calls[frame["call"]].cancel()
        elif what == "close":
            break
        # Whatever else comes is of a newer version, and to be ignored.


main()
