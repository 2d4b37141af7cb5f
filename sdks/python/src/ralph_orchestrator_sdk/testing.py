"""Drives items in-process for a plugin's own tests, by the frames that the orchestrator would send.

    with Workspace() as workspace:
        workspace.write("notes.txt", "done")
        item = workspace.open(Notes, {"file": "notes.txt"})
        assert isinstance(item.validate(), Accepted)

`open` raises `Refused` for a mistake in the table. A call that fails raises `Failed`, one whose code raised anything
else `Panicked`.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union, cast

from . import (MAX_FRAME, Accepted, BacklogEdit, Claim, Evidence, Failed, Frame, Item, Refused, Rejected, Session,
               Undecided, Verdict, _wire, encode)

# How long a test waits for a call, in seconds.
TIMEOUT = 60.0


class Panicked(Exception):
    """The author's code raised an exception in a call. The location is as in `plugin.py:12 in validate`."""

    def __init__(self, message: str, location: str) -> None:
        super().__init__(f"{message} (at {location})")
        self.message, self.location = message, location


class Workspace:
    """A folder of its own, which is deleted at the end, and the host of items that work in it.

    `previews` are the answers to `Task.preview`, `refused_writes` paths that must not be written, and `guidance`
    what people sent.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ralph-plugin-test-")).resolve()
        self.scratch = Path(tempfile.mkdtemp(prefix="ralph-plugin-scratch-")).resolve()
        self.previews: List[Frame] = []
        self.refused_writes: List[str] = []
        self.guidance: List[str] = []
        self._hosts: List[_Host] = []

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Ends all sessions and deletes the folder."""
        for host in self._hosts:
            host.session.end()
        for folder in (self.path, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, name: str, content: Union[str, bytes]) -> Path:
        """Writes a file, with the folders above it."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def open(self, item: Type[Item[Any]], config: Optional[Mapping[str, Any]] = None) -> TestedItem:
        """Builds an item from its table, as a session of its own would."""
        host = _Host(self, item)
        self._hosts.append(host)
        context = {"config_dir": str(self.path), "workspace": str(self.path), "prompt_dir": str(self.path),
                   "path": os.environ.get("PATH", "")}
        host.send({"frame": "open", "instance": 1, "kind": item.kind, "name": None, "config": dict(config or {}),
                   "context": context})
        answer = host.wait(lambda: host.opened)
        if answer["frame"] == "refused":
            raise Refused(answer["key"], answer["message"], answer.get("unknown_key"))
        return TestedItem(host, item, answer)


class _Host:
    """The host's side of a session in-process."""

    def __init__(self, workspace: Workspace, item: Type[Item[Any]]) -> None:
        self.workspace = workspace
        self.changed = threading.Condition()
        self.hello: Optional[Frame] = None
        self.opened: Optional[Frame] = None
        self.logs: List[Frame] = []
        self.calls: Dict[int, RunningCall] = {}
        self.session = Session(item.item_name(), "0", [item], self._receive)
        self.send({"frame": "hello", "protocol": 1, "host": "testing", "window": 8, "log": "trace",
                   "features": ["credit", "ping", "write_check", "cancel_reasons", "setup_problems", "launch",
                                "guidance"]})

    def send(self, frame: Frame) -> None:
        self.session.handle_line(encode(frame))

    def wait(self, found: Any) -> Frame:
        with self.changed:
            if not self.changed.wait_for(found, TIMEOUT):
                raise TimeoutError(f"no answer within {TIMEOUT} s")
            return cast(Frame, found())

    def _receive(self, line: bytes) -> None:
        assert line.endswith(b"\n") and len(line) <= MAX_FRAME + 1
        frame: Frame = json.loads(line)
        answer: Optional[Frame] = None
        with self.changed:
            kind = frame["frame"]
            call = self.calls.get(frame.get("call", 0))
            if kind == "hello":
                self.hello = frame
            elif kind in ("opened", "refused"):
                self.opened = frame
            elif kind == "log":
                self.logs.append(frame)
            elif call is not None and kind == "event":
                call.events.append(frame["event"])
                answer = {"frame": "credit", "call": frame["call"], "events": 1}
            elif call is not None and kind in ("done", "failed", "panicked"):
                call.answer = frame
            elif call is not None:
                answer = self._answer(frame)
            self.changed.notify_all()
        if answer is not None:
            # Not in the thread that sends: it holds the locks of its call.
            threading.Thread(target=self.send, args=(answer,), daemon=True).start()

    def _answer(self, frame: Frame) -> Frame:
        numbers = {"call": frame["call"], "request": frame["request"]}
        if frame["frame"] == "preview":
            preview = self.workspace.previews.pop(0) if self.workspace.previews else {"result": "no_claim"}
            return {"frame": "preview_result", **numbers, **preview}
        if frame["frame"] == "write_check":
            path = os.path.relpath(os.path.join(self.workspace.path, frame["path"]), self.workspace.path)
            return {"frame": "write_check_result", **numbers, "refused": path in self.workspace.refused_writes}
        taken, self.workspace.guidance = self.workspace.guidance, []
        guidance = [{"id": str(number), "text": text} for number, text in enumerate(taken, 1)]
        return {"frame": "guidance_result", **numbers, "guidance": guidance}


class RunningCall:
    """A call that may still work."""

    def __init__(self, host: _Host, number: int) -> None:
        self.events: List[Frame] = []
        self.answer: Optional[Frame] = None
        self._host, self._number = host, number

    def wait_for_event(self, type: str) -> Frame:
        """Waits for an event of this type and returns it."""
        return self._host.wait(lambda: next((event for event in self.events if event["type"] == type), None))

    def cancel(self, reason: str = "signal", grace: float = 5.0) -> RunningCall:
        """Cancels the call."""
        self._host.send({"frame": "cancel", "call": self._number, "reason": reason, "grace_ms": int(grace * 1000)})
        return self

    def result(self) -> Frame:
        """Waits for the answer and returns its keys."""
        answer = self._host.wait(lambda: self.answer)
        if answer["frame"] == "failed":
            raise Failed(answer["class"], answer["message"], until_ms=answer.get("until_ms"))
        if answer["frame"] == "panicked":
            raise Panicked(answer["message"], answer["location"])
        return answer

    def report(self) -> Frame:
        """Waits for the end of a `run` and returns its report, even if the run failed."""
        answer = self._host.wait(lambda: self.answer)
        return cast(Frame, answer.get("report", {}))


class TestedItem:
    """An item that was built."""

    __test__ = False  # Not a test by its name.

    def __init__(self, host: _Host, item: Type[Item[Any]], opened: Frame) -> None:
        self._host, self._item = host, item
        #: What it says of itself, as the orchestrator is told.
        self.description: Frame = opened[item.kind]
        #: What it has logged.
        self.logs = host.logs

    def start(self, method: str, **parameters: Any) -> RunningCall:
        """Starts a call of any method."""
        number = len(self._host.calls) + 1
        call = RunningCall(self._host, number)
        self._host.calls[number] = call
        self._host.send({"frame": "call", "call": number, "instance": 1, "method": method, **parameters})
        return call

    def _env(self) -> Dict[str, str]:
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}

    def check(self) -> str:
        """Calls `check` of an agent or validator."""
        return str(self.start("check", env=self._env()).result()["found"])

    def start_run(self, prompt: Union[str, bytes] = "Do it.", number: int = 1) -> RunningCall:
        """Starts an iteration of an agent."""
        task: Frame = {"run": "run", "number": number, "workspace": str(self._host.workspace.path),
                       "env": self._env(), "budget": {}, "scratch": str(self._host.workspace.scratch)}
        if isinstance(prompt, bytes):
            task["prompt_base64"] = base64.b64encode(prompt).decode()
        else:
            task["prompt"] = prompt
        return self.start("run", task=task)

    def run(self, prompt: Union[str, bytes] = "Do it.") -> Tuple[Frame, List[Frame]]:
        """Runs an iteration of an agent; returns its report and its events."""
        call = self.start_run(prompt)
        return cast(Frame, call.result()["report"]), call.events

    def start_validate(self, text: str = "The task is complete.", **context: Any) -> RunningCall:
        """Starts a validation of a claim. Keys of the context replace those of a first iteration."""
        claim = {"kind": "complete", "detector": "promise", "source": "message", "text": text}
        whole = {"run": "run", "iteration": 1, "claim": claim, "workspace": str(self._host.workspace.path),
                 "tree_since": 1, "written_in": {}, "evidence_listed": True, "protected_changes": [],
                 "env": self._env(), **context}
        return self.start("validate", context=whole)

    def validate(self, text: str = "The task is complete.", **context: Any) -> Verdict:
        """Has a validator decide about a claim."""
        verdict = self.start_validate(text, **context).result()["verdict"]
        if verdict["verdict"] == "accepted":
            evidence = [Evidence(one["path"], one.get("digest"), one.get("bytes")) for one in verdict["evidence"]]
            return Accepted(verdict["summary"], evidence)
        if verdict["verdict"] == "rejected":
            return Rejected(*verdict["reasons"])
        return Undecided(verdict["message"])

    def find_setup_problems(self) -> List[Frame]:
        """Asks a validator what the user should know before a run."""
        call = self.start("find_setup_problems", workspace=str(self._host.workspace.path), env=self._env())
        return cast(List[Frame], call.result()["setup_problems"])

    def inspect(self, final_text: Optional[str] = None, given: Optional[str] = None,
                prompt: Optional[str] = None) -> List[Claim]:
        """Has a detector find claims."""
        whole = {"workspace": str(self._host.workspace.path), "prompt_path": None, "prompt": prompt,
                 "final_text": final_text, "given": given}
        return _claims(self.start("inspect", input=whole).result()["findings"].get("claims", ()))

    def observe(self, **event: Any) -> List[Claim]:
        """Gives a detector an event."""
        return _claims(self.start("observe", event=event).result()["claims"])

    def strip_claims(self, prompt: str) -> str:
        """Has a detector remove claims from a prompt."""
        return str(self.start("strip_claims", prompt=prompt).result()["text"])

    def read(self, text: str) -> Frame:
        """Has a format of backlogs read a text; returns `items` or `defects`."""
        return cast(Frame, self.start("read_backlog", text=text).result()["backlog"])

    def edit(self, text: str, edits: Sequence[BacklogEdit]) -> Frame:
        """Has a format of backlogs edit a text; returns `text`, `not_storable` or `invalid_item`."""
        words = {"SetStatus": "set_status", "SetNotes": "set_notes", "AddItem": "add"}
        frames = [{"edit": words[type(edit).__name__], **_wire(edit)} for edit in edits]
        return cast(Frame, self.start("edit_backlog", text=text, edits=frames).result()["edited"])


def _claims(found: Sequence[Mapping[str, Any]]) -> List[Claim]:
    return [Claim(one["text"], one["kind"], one["source"], one["detector"]) for one in found]
