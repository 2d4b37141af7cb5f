"""Write plugins for ralph-orchestrator: agents, detectors, validators and formats of backlogs.

A plugin subclasses `Agent`, `Detector`, `Validator` or `BacklogFormat` and ends with `run(TheClass)`. The type in
brackets is that of its table in ralph.toml: a dataclass, `None` for no keys, or `dict` with a `schema` of your own.

    @dataclass
    class Config:
        file: str = "notes.txt"

    class Notes(Validator[Config]):
        \"\"\"Requires notes.\"\"\"

        def validate(self, call: Validation) -> Verdict:
            if not call.read_text(self.config.file):
                return Rejected(f"{self.config.file} is missing or empty: write what you did")
            return Accepted("there are notes")

    run(Notes)

Each call runs in a thread of its own. What is printed goes to standard error. `logging` reaches the host. An exception
fails its call, not the plugin. This file is the whole package but for `testing`: it needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import base64
import codecs
import dataclasses
import json
import logging
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence as AbstractSequence
from pathlib import Path
from typing import (AbstractSet, Any, BinaryIO, Callable, ClassVar, Dict, Generic, Iterator, List, Literal, Mapping,
                    Optional, Sequence, Set, Tuple, Type, TypeVar, Union, cast, get_args, get_origin, get_type_hints)

__version__ = "0.1.0"
__all__ = [
    "Accepted", "AddItem", "Agent", "BacklogEdit", "BacklogFormat", "BacklogItem", "Budget", "BuildContext", "Call",
    "Cancelled", "Claim", "Defect", "Defects", "Detector", "Evidence", "Failed", "Findings", "Guidance", "Inspection",
    "InvalidItem", "Launch", "NearMiss", "NewItem", "NotStorable", "Preview", "ProgramResult", "ProtectedChange",
    "Refused", "Rejected", "Report", "SetNotes", "SetStatus", "Setup", "SetupProblem", "Survivor", "Task", "Tokens",
    "Undecided", "Usage", "Validation", "Validator", "Verdict", "run",
]

PROTOCOL = 1
MAX_FRAME = 16 * 1024 * 1024
FEATURES = ("credit", "ping", "write_check", "cancel_reasons", "setup_problems", "launch", "guidance")
# The longest text of one event, in characters: even if each takes six bytes, it fits into a frame.
MAX_TEXT = 1024 * 1024
# How long calls may take to end after the session has ended, in seconds.
CLOSE_GRACE = 2.0

ErrorClass = Literal[
    "rate_limited", "overloaded", "unauthenticated", "billing", "invalid_request", "not_found", "context_exceeded",
    "agent_limit", "crashed", "timed_out", "unavailable", "cancelled"]
CancelReason = Literal["timeout", "idle", "max_runtime", "max_cost", "max_tokens", "handoff", "signal", "pause"]
Capability = Literal[
    "cost", "tokens", "context", "rate_windows", "tool_calls", "interrupt", "handoff", "in_session_validation",
    "resume", "free"]
ClaimKind = Literal["complete", "needs_human"]
ClaimSource = Literal["message", "state", "tool"]
ItemStatus = Literal["pending", "in_progress", "completed", "blocked"]
ItemOrder = Literal["file", "lowest", "lowest_then_id", "in_progress_then_highest"]
Frame = Dict[str, Any]
C = TypeVar("C")


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


# As the host starts a plugin: what its modules print before `run` is no frame. `run` does the rest.
if _is_pipe(0) and _is_pipe(1):
    sys.stdout = sys.stderr


# What authors return and are given.


@dataclasses.dataclass(frozen=True)
class BuildContext:
    """Surrounds an item when it is built."""

    config_dir: Path
    workspace: Path
    prompt_dir: Path
    path: str


@dataclasses.dataclass
class Claim:
    """An assertion that the task is complete, or that a human is needed."""

    text: str
    kind: ClaimKind = "complete"
    source: ClaimSource = "message"
    detector: str = ""


@dataclasses.dataclass
class NearMiss:
    """Text that resembles a claim; `hint` tells the agent what a claim is."""

    text: str
    line: int
    hint: str
    detector: str = ""


@dataclasses.dataclass
class Findings:
    """The result of one inspection."""

    claims: Sequence[Claim] = ()
    near_misses: Sequence[NearMiss] = ()
    warnings: Sequence[str] = ()


@dataclasses.dataclass
class Evidence:
    """A file that a verdict rests on. The host computes digest and size that are left out."""

    path: Union[str, Path]
    digest: Optional[str] = None
    bytes: Optional[int] = None


class Accepted:
    """The verdict that a claim is accepted."""

    def __init__(self, summary: str, evidence: Sequence[Union[Evidence, str, Path]] = ()) -> None:
        self.summary = summary
        self.evidence = [one if isinstance(one, Evidence) else Evidence(one) for one in evidence]


class Rejected:
    """The verdict that a claim is rejected. The agent reads the reasons: what is missing, and what to do."""

    def __init__(self, *reasons: str) -> None:
        if not reasons or not all(reason.strip() for reason in reasons):
            raise ValueError("Rejected() needs a reason: the agent reads what is missing and what to do")
        self.reasons = list(reasons)


class Undecided:
    """The verdict `error`: the validator could not decide. People read the message."""

    def __init__(self, message: str) -> None:
        self.message = message


Verdict = Union[Accepted, Rejected, Undecided]


@dataclasses.dataclass
class Tokens:
    """Counts of tokens since the iteration began."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclasses.dataclass
class Usage:
    """Sums since the iteration began: US dollars and tokens."""

    cost: Optional[float] = None
    tokens: Optional[Tokens] = None


@dataclasses.dataclass
class Survivor:
    """A process that could not be ended; `started` is field 22 of /proc/PID/stat."""

    name: str
    pid: int
    started: int


@dataclasses.dataclass
class Report:
    """How an iteration ended. `session` and `usage` are those that were sent as events, if they are left out."""

    final_text: Optional[str] = None
    usage: Optional[Usage] = None
    session: Optional[str] = None
    exit: Optional[str] = None
    left_behind: Sequence[str] = ()
    survived: Sequence[Survivor] = ()
    denied: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Budget:
    """What is left of the limits; None has no limit."""

    cost: Optional[float] = None
    tokens: Optional[int] = None
    seconds: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Preview:
    """The result that validation would have now: `no_claim`, `accepted`, `rejected` or `not_now`."""

    result: str
    reasons: Sequence[str] = ()
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Guidance:
    """What a person sent with `steer`."""

    id: str
    text: str


@dataclasses.dataclass
class Launch:
    """What `Agent.run` would start."""

    program: Optional[str] = None
    argv: Sequence[str] = ()
    env: Optional[Mapping[str, str]] = None


@dataclasses.dataclass
class SetupProblem:
    """What the user should know before a run; a fatal one keeps it from starting."""

    message: str
    key: Sequence[str] = ()
    is_fatal: bool = False


@dataclasses.dataclass(frozen=True)
class ProtectedChange:
    """A protected file that changed since the run began: `added`, `modified` or `removed`."""

    path: str
    kind: str


@dataclasses.dataclass
class BacklogItem:
    """One unit of work. `line` and `column` count from 1."""

    id: str
    title: str
    status: ItemStatus = "pending"
    description: str = ""
    priority: int = 0
    criteria: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    notes: Sequence[str] = ()
    verify: Optional[str] = None
    line: Optional[int] = None
    column: int = 1


@dataclasses.dataclass(frozen=True)
class NewItem:
    """An item to add."""

    title: str
    id: Optional[str] = None
    description: str = ""
    category: Optional[str] = None
    priority: Optional[int] = None
    criteria: Sequence[str] = ()
    dependencies: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class SetStatus:
    """Sets the status of an item."""

    id: str
    status: ItemStatus


@dataclasses.dataclass(frozen=True)
class SetNotes:
    """Replaces all notes of an item."""

    id: str
    notes: Sequence[str]


@dataclasses.dataclass(frozen=True)
class AddItem:
    """Adds a pending item as the last one."""

    item: NewItem


BacklogEdit = Union[SetStatus, SetNotes, AddItem]


@dataclasses.dataclass
class Defect:
    """What is wrong with a text: its place, and what was expected."""

    message: str
    line: Optional[int] = None
    column: int = 1
    item: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ProgramResult:
    """How a program ended: its exit status, negative for a signal, and the end of what it printed."""

    status: int
    output: str


# What authors raise.


class Refused(Exception):
    """A mistake in the table: the key, or its path, and what was expected. `unknown` is a key that does not exist."""

    def __init__(self, key: Union[str, Sequence[str]], message: str, unknown: Optional[str] = None) -> None:
        super().__init__(message)
        self.key: List[str] = ([key] if key else []) if isinstance(key, str) else list(key)
        self.message, self.unknown = message, unknown


class Failed(Exception):
    """Fails a call with a class, which decides what the host does."""

    def __init__(self, error_class: ErrorClass, message: str, *, until_ms: Optional[int] = None,
                 report: Optional[Report] = None) -> None:
        super().__init__(message)
        self.error_class, self.message, self.until_ms, self.report = error_class, message, until_ms, report


class Cancelled(Failed):
    """Ends a call that was cancelled."""

    def __init__(self, reason: str = "signal") -> None:
        super().__init__("cancelled", f"it was cancelled: {reason}")


class Defects(Exception):
    """A text that is not valid."""

    def __init__(self, *defects: Defect) -> None:
        super().__init__("; ".join(defect.message for defect in defects))
        self.defects = defects


class NotStorable(Exception):
    """What a format has no place for, such as "a priority"."""


class InvalidItem(Exception):
    """What is wrong with an item to be added, and what to do."""


# Tables of the configuration.


def _type_name(schema_type: str) -> str:
    names = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "a boolean",
             "array": "an array"}
    return names.get(schema_type, "a table")


def _has_type(schema_type: str, value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    tests: Dict[str, bool] = {
        "string": isinstance(value, str), "integer": is_number and isinstance(value, int), "number": is_number,
        "boolean": isinstance(value, bool), "array": isinstance(value, list), "object": isinstance(value, dict),
        "null": value is None}
    return tests.get(schema_type, True)


def check_table(schema: Mapping[str, Any], value: Any, path: Tuple[str, ...] = ()) -> None:
    """Raises `Refused` for the first value that its JSON Schema does not allow, as the host does.

    It follows `type`, `enum`, `const`, `properties`, `required`, `additionalProperties` and `items`.
    """
    expected = schema.get("type")
    if expected is not None:
        allowed = [expected] if isinstance(expected, str) else list(expected)
        if not any(_has_type(one, value) for one in allowed):
            found = next((_type_name(one) for one in ("boolean", "string", "number", "array") if _has_type(one, value)),
                         "nothing" if value is None else "a table")
            names = " or ".join(_type_name(one) for one in allowed if one != "null")
            raise Refused(path, f"expected {names}, found {found}")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None and not any(type(one) is type(value) and one == value for one in values):
        raise Refused(path, "expected " + " or ".join(json.dumps(one) for one in values))
    if isinstance(value, list) and isinstance(schema.get("items"), AbstractMapping):
        for index, element in enumerate(value):
            check_table(schema["items"], element, (*path, str(index)))
    if isinstance(value, dict):
        _check_keys(schema, value, path)


def _check_keys(schema: Mapping[str, Any], table: Mapping[str, Any], path: Tuple[str, ...]) -> None:
    known: Mapping[str, Any] = schema.get("properties", {})
    others = {} if "patternProperties" in schema else schema.get("additionalProperties", {})
    for key, value in table.items():
        of_key = known.get(key, others)
        if of_key is False:
            names = ", ".join(f"`{name}`" for name in known)
            expected = f"expected one of {names}" if names else "there are no fields"
            raise Refused(path, f"unknown field `{key}`, {expected}", key)
        if isinstance(of_key, AbstractMapping):
            check_table(of_key, value, (*path, key))
    for key in schema.get("required", ()):
        if key not in table:
            raise Refused(path, f"missing field `{key}`")


_PLAIN: Dict[Any, str] = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}
_UNIONS = (Union, getattr(types, "UnionType", Union))


def schema_of(of_type: Any) -> Dict[str, Any]:
    """Returns the JSON Schema of a type of the configuration."""
    if of_type is Any:
        return {}
    if of_type is None or of_type is type(None):
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if of_type in _PLAIN:
        return {"type": _PLAIN[of_type]}
    if dataclasses.is_dataclass(of_type) and isinstance(of_type, type):
        return _schema_of_dataclass(of_type)
    origin, args = get_origin(of_type) or of_type, get_args(of_type)
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple and args and args[1:] != (Ellipsis,):
        raise TypeError(f"{of_type} cannot be the type of a key: of tuples only tuple[TYPE, ...], whose elements have one type")
    if origin in (list, tuple, AbstractSequence):
        return {"type": "array", "items": schema_of(args[0])} if args else {"type": "array"}
    if origin in (dict, AbstractMapping):
        return {"type": "object", **({"additionalProperties": schema_of(args[1])} if args else {})}
    arms = [arm for arm in args if arm is not type(None)]
    if origin in _UNIONS and len(arms) == 1:
        return schema_of(arms[0])
    raise TypeError(f"{of_type} cannot be the type of a key: expected str, int, float, bool, Path, Literal, list, "
                    "tuple, dict, Optional of one of these, or a dataclass")


def _list_texts(what: str, texts: Sequence[str]) -> List[str]:
    """Returns a list of texts. To type checkers one text is a sequence of texts, too: of its letters."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{what}: expected a list of texts, not one text: [{texts!r}]")
    return list(texts)


def _schema_of_dataclass(of_type: type) -> Dict[str, Any]:
    hints = get_type_hints(of_type)
    properties: Dict[str, Any] = {}
    required: List[str] = []
    for field in dataclasses.fields(cast(Any, of_type)):
        if not field.init:
            continue
        properties[field.name] = schema_of(hints[field.name])
        if "description" in field.metadata:
            properties[field.name]["description"] = field.metadata["description"]
        if field.default is not dataclasses.MISSING:
            if isinstance(field.default, (str, int, float, bool)):
                properties[field.name]["default"] = field.default
        elif field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _build_value(of_type: Any, value: Any) -> Any:
    """Converts a value that fits the schema of the type."""
    if of_type in (None, type(None)):
        return None
    if dataclasses.is_dataclass(of_type) and isinstance(of_type, type):
        hints = get_type_hints(of_type)
        return of_type(**{key: _build_value(hints[key], element) for key, element in value.items()})
    if of_type in (float, Path):
        return of_type(value)
    origin, args = get_origin(of_type), get_args(of_type)
    if origin in _UNIONS:
        return None if value is None else _build_value(next(arm for arm in args if arm is not type(None)), value)
    if origin in (list, tuple, AbstractSequence) and args:
        built = [_build_value(args[0], element) for element in value]
        return tuple(built) if origin is tuple else built
    if origin in (dict, AbstractMapping) and args:
        return {key: _build_value(args[1], element) for key, element in value.items()}
    return value


# Calls.


class Call:
    """One call of the host. It can be cancelled while it works."""

    def __init__(self, session: Session, number: int, workspace: Path, env: Mapping[str, str]) -> None:
        self.workspace, self.env = workspace, env
        self._session, self._number = session, number
        # Guards all below; notified when one of them changes.
        self._changed = threading.Condition(threading.RLock())
        self._reason: Optional[str] = None
        self._is_answered = False
        self._credit: Optional[int] = None
        self._answers: Dict[Tuple[str, int], Frame] = {}
        self._last_request = 0
        self._requesting = threading.Lock()
        self._callbacks: List[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Whether the call has to end."""
        return self._reason is not None

    @property
    def cancel_reason(self) -> Optional[str]:
        """Why it has to end, such as `timeout` or `handoff`."""
        return self._reason

    def check_cancelled(self) -> None:
        """Raises `Cancelled` if the call has to end. Call it in loops."""
        if self._reason is not None:
            raise Cancelled(self._reason)

    def wait(self, seconds: float) -> None:
        """Waits; raises `Cancelled` as soon as the call has to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._reason is not None, seconds)
        self.check_cancelled()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls back from another thread when the call has to end, at once if it already has. Returns a function
        that takes the callback back."""
        with self._changed:
            if self._reason is None:
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], object]) -> None:
        with self._changed:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _cancel(self, reason: str) -> None:
        with self._changed:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                traceback.print_exc()

    def read_text(self, path: Union[str, Path], max_bytes: int = 1024 * 1024) -> Optional[str]:
        """Reads the beginning of a regular file in the workspace; None if there is none that can be read.

        What the agent may have put in its place does no harm: a link that leads out of the workspace, a pipe.
        """
        root = os.path.realpath(self.workspace)
        real = os.path.realpath(os.path.join(root, path))
        if os.path.commonpath([root, real]) != root:
            return None
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(max_bytes).decode("utf-8", "replace")

    def run_program(self, argv: Sequence[str], *, input: Union[str, bytes] = b"", cwd: Union[str, Path, None] = None,
                    env: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None,
                    merge_stderr: bool = False, on_output: Optional[Callable[[str], object]] = None,
                    max_output: int = 1024 * 1024) -> ProgramResult:
        """Runs a program in the workspace with the environment of the call, and ends all that it has started.

        `on_output` gets pieces of what it prints as they come. The result has the last `max_output` bytes. Raises
        `Cancelled` if the call is cancelled, and `Failed` if the program cannot be run or takes longer than `timeout`
        seconds.
        """
        self.check_cancelled()
        bytes_in = input.encode("utf-8", "surrogateescape") if isinstance(input, str) else input
        try:
            child = subprocess.Popen(
                _list_texts("argv", argv), cwd=cwd or self.workspace, env=dict(self.env if env is None else env),
                stdin=subprocess.PIPE if bytes_in else subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge_stderr else None, start_new_session=True)
        except OSError as error:
            raise Failed("unavailable", f"{argv[0]} cannot be run: {error.strerror or error}") from None
        program = _Program(child, bytes_in)
        forget = self.on_cancel(program.terminate)
        timer = threading.Timer(timeout, program.time_out) if timeout is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        has_ended = False
        try:
            output = program.read(on_output, max_output)
            has_ended = True
        finally:
            status = program.end(kill=not has_ended)
            forget()
            if timer is not None:
                timer.cancel()
        self.check_cancelled()
        if program.is_late:
            raise Failed("timed_out", f"{argv[0]} did not end within {timeout} s")
        return ProgramResult(status, output)

    def _send(self, frame: str, **keys: Any) -> None:
        """Sends a frame of this call, unless it was answered."""
        encoded = encode({"frame": frame, "call": self._number, **keys})
        with self._changed:
            if self._is_answered:
                raise Cancelled(self._reason or "signal")
            self._session.write(encoded)

    def _answer(self, frame: Frame) -> None:
        """Answers the call, unless that was done."""
        encoded = encode({"call": self._number, **frame})
        with self._changed:
            if not self._is_answered:
                self._is_answered = True
                self._changed.notify_all()
                self._session.write(encoded)

    def _request(self, frame: str, **keys: Any) -> Frame:
        """Sends a request and returns its answer. The host takes one at a time."""
        with self._requesting:
            self._last_request += 1
            request = self._last_request
            expected = (_ANSWERS[frame], request)
            self._send(frame, request=request, **keys)
            with self._changed:
                self._changed.wait_for(lambda: expected in self._answers or self._is_answered)
                if expected not in self._answers:
                    raise Cancelled(self._reason or "signal")
                return self._answers.pop(expected)

    def _take(self, frame: Frame) -> None:
        """Takes a frame of the host that belongs to this call."""
        with self._changed:
            if frame["frame"] == "credit":
                if self._credit is not None:
                    self._credit += int(frame["events"])
            else:
                self._answers[frame["frame"], int(frame["request"])] = frame
            self._changed.notify_all()


_ANSWERS = {"preview": "preview_result", "write_check": "write_check_result", "take_guidance": "guidance_result"}


class _Program:
    """A program in a process group of its own. Its group is killed as soon as its first process has ended."""

    def __init__(self, child: subprocess.Popen[bytes], bytes_in: bytes) -> None:
        self.child, self.is_late = child, False
        self._lock, self._is_reaped = threading.Lock(), False
        self._wake_read, self._wake_write = os.pipe()
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()
        if child.stdin is not None:
            threading.Thread(target=self._feed, args=(bytes_in,), daemon=True).start()

    def _feed(self, bytes_in: bytes) -> None:
        if self.child.stdin is not None:
            try:
                self.child.stdin.write(bytes_in)
                self.child.stdin.close()
            except OSError:
                pass  # It does not want to read it.

    def _wait(self) -> None:
        # Not reaped yet, so that the number of its group is its own.
        os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
        self._signal(signal.SIGKILL)
        with self._lock:
            self.child.wait()
            self._is_reaped = True
        os.write(self._wake_write, b"\n")

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._is_reaped:
                try:
                    os.killpg(self.child.pid, number)
                except OSError:
                    pass  # It has ended.

    def terminate(self) -> None:
        """Sends SIGTERM, and SIGKILL a second later."""
        self._signal(signal.SIGTERM)
        killer = threading.Timer(1.0, self._signal, args=(signal.SIGKILL,))
        killer.daemon = True
        killer.start()

    def time_out(self) -> None:
        self.is_late = True
        self.terminate()

    def read(self, on_output: Optional[Callable[[str], object]], max_output: int) -> str:
        """Reads until nobody can write, or the first process has ended and nothing is left to read."""
        assert self.child.stdout is not None
        pieces, kept = [], 0
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self.child.stdout not in ready:
                    break
                piece = os.read(self.child.stdout.fileno(), 65536)
                if on_output is not None:
                    text = decoder.decode(piece, final=not piece)
                    if text:
                        on_output(text)
                if not piece:
                    break
                pieces.append(piece)
                kept += len(piece)
                while pieces and kept - len(pieces[0]) >= max_output:
                    kept -= len(pieces.pop(0))
        return b"".join(pieces)[-max_output:].decode("utf-8", "replace")

    def end(self, kill: bool) -> int:
        """Waits until the program has ended, and returns its exit status."""
        if kill:
            self._signal(signal.SIGKILL)
        self._waiter.join()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        if self.child.stdout is not None:
            self.child.stdout.close()
        return self.child.returncode


class Task(Call):
    """An iteration that an agent performs. Its methods send events, in the order in which things happen."""

    def __init__(self, session: Session, number: int, frame: Frame) -> None:
        task = frame["task"]
        super().__init__(session, number, Path(task["workspace"]), task["env"])
        self.run: str = task["run"]
        self.number: int = task["number"]
        self.scratch = Path(task["scratch"])
        if "prompt" in task:
            self.prompt_bytes: bytes = task["prompt"].encode("utf-8", "replace")
        else:
            self.prompt_bytes = base64.b64decode(task["prompt_base64"])
        budget = task.get("budget") or {}
        time_left = budget.get("time")
        self.budget = Budget(budget.get("cost"), budget.get("tokens"),
                             None if time_left is None else time_left["secs"] + time_left.get("nanos", 0) / 1e9)
        self._session_id: Optional[str] = None
        self._usage: Optional[Usage] = None
        self._calls = 0

    @property
    def prompt(self) -> str:
        """The prompt. Fails the call with `invalid_request` if it is no UTF-8; `prompt_bytes` has any."""
        try:
            return self.prompt_bytes.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Failed("invalid_request", f"the prompt is not UTF-8: {error}") from None

    def event(self, type: str, **keys: Any) -> None:
        """Sends any event. Waits while the host is busy."""
        with self._changed:
            self._changed.wait_for(lambda: self._credit is None or self._credit > 0 or self._is_answered)
            if self._credit is not None:
                self._credit -= 1
            try:
                self._send("event", event={"type": type, **keys})
            except (TypeError, ValueError) as error:
                if self._credit is not None:
                    self._credit += 1
                raise ValueError(f"the event {type} cannot be sent: {error}") from None

    def session(self, id: str, model: Optional[str] = None) -> None:
        """Names the agent's session: first, and once."""
        self._session_id = id
        self.event("session", id=id, model=model)

    def text(self, text: str) -> None:
        """Sends a piece of the agent's own text."""
        for piece in _pieces(text):
            self.event("text", text=piece)

    def thinking(self, text: str) -> None:
        """Sends a piece of the agent's reasoning."""
        for piece in _pieces(text):
            self.event("thinking", text=piece)

    def tool_call(self, name: str, input: Any = None, id: Optional[str] = None) -> str:
        """Announces that a tool runs, and returns the id for `tool_result`."""
        self._calls += 1
        id = id if id is not None else f"call-{self._calls}"
        self.event("tool_call", id=id, name=name, input=input)
        return id

    def tool_result(self, id: str, text: str, is_error: bool = False) -> None:
        """Sends the result of a tool. Of a long text the beginning."""
        self.event("tool_result", id=id, is_error=is_error, text=text[:MAX_TEXT])

    def usage(self, cost: Optional[float] = None, tokens: Optional[Tokens] = None) -> None:
        """Reports the sums since the iteration began, never differences. What is left out is as before."""
        before = self._usage or Usage()
        self._usage = Usage(before.cost if cost is None else cost, before.tokens if tokens is None else tokens)
        self.event("usage", usage=_wire(self._usage))

    def context(self, used: int, window: Optional[int] = None) -> None:
        """Reports how full the model's context is, in tokens."""
        self.event("context", used=used, window=window)

    def rate_window(self, name: str, used: float, resets_at_ms: Optional[int] = None) -> None:
        """Reports how much of a rate window of the provider is used, from 0 to 1."""
        self.event("rate_window", name=name, used=used, resets_at_ms=resets_at_ms)

    def claim(self, text: str, kind: ClaimKind = "complete") -> None:
        """Claims, for a model that called a tool made for it."""
        self.event("claim", kind=kind, text=text)

    def note(self, text: str) -> None:
        """Leaves a note for later iterations."""
        self.event("note", text=text)

    def waiting(self, reason: str, delay_ms: Optional[int] = None) -> None:
        """Reports that the agent waits for its provider: no idle time."""
        self.event("waiting", reason=reason, delay_ms=delay_ms)

    def stderr(self, line: str) -> None:
        """Passes on a line of standard error of the agent's program."""
        self.event("stderr", text=line[:MAX_TEXT])

    def raw(self, line: str) -> None:
        """Passes on a line of the agent's own protocol, for the transcript."""
        self.event("raw", line=line[:MAX_TEXT])

    def warning(self, message: str) -> None:
        """Warns the user. Does not end the iteration."""
        self.event("warning", message=message[:8192])

    def preview(self, final_text: Optional[str] = None) -> Preview:
        """Requests the result that validation would have if the agent ended now. It decides nothing."""
        answer = self._request("preview", final_text=final_text)
        return Preview(answer.get("result", "not_now"), tuple(answer.get("reasons", ())), answer.get("why", ""))

    def is_write_refused(self, path: Union[str, Path]) -> bool:
        """Whether the agent's own tools must not write this path, which is absolute or in the workspace."""
        if "write_check" not in self._session.host_features:
            return False
        path = os.path.join(self.workspace, path)
        return bool(self._request("write_check", path=path).get("refused", True))

    def take_guidance(self) -> List[Guidance]:
        """Takes what people sent with `steer` since it was taken last. It counts as delivered."""
        if "guidance" not in self._session.host_features:
            return []
        taken = self._request("take_guidance").get("guidance", ())
        return [Guidance(str(one["id"]), str(one["text"])) for one in taken]

    def tool_server_command(self) -> Optional[List[str]]:
        """Returns the command of the server of the orchestrator's tools (MCP), if there is one."""
        try:
            command = json.loads((self.scratch / "tools.json").read_text(encoding="utf-8"))["command"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_command = isinstance(command, list) and all(isinstance(word, str) for word in command)
        return command if is_command else None

    def _report(self, report: Optional[Report]) -> Frame:
        """Returns a report with what is known from events."""
        report = report or Report()
        return cast(Frame, _wire(dataclasses.replace(
            report, session=report.session or self._session_id, usage=report.usage or self._usage)))


def _pieces(text: str) -> Iterator[str]:
    return (text[start:start + MAX_TEXT] for start in range(0, len(text), MAX_TEXT))


class Validation(Call):
    """A claim that a validator decides about."""

    def __init__(self, session: Session, number: int, frame: Frame) -> None:
        context = frame["context"]
        super().__init__(session, number, Path(context["workspace"]), context["env"])
        claim = context["claim"]
        self.run: str = context["run"]
        self.iteration: int = context["iteration"]
        self.claim = Claim(claim["text"], claim["kind"], claim["source"], claim["detector"])
        self.tree_since: int = context["tree_since"]
        self.written_in: Mapping[str, int] = context.get("written_in") or {}
        self.evidence_listed: bool = context.get("evidence_listed", True)
        self.protected_changes = [ProtectedChange(one["path"], one["kind"])
                                  for one in context.get("protected_changes") or ()]


class Inspection(Call):
    """What a detector looks for claims in."""

    def __init__(self, session: Session, number: int, frame: Frame) -> None:
        given = frame["input"]
        super().__init__(session, number, Path(given["workspace"]), os.environ)
        self.prompt_path: Optional[str] = given.get("prompt_path")
        self.prompt: Optional[str] = given.get("prompt")
        self.final_text: Optional[str] = given.get("final_text")
        self.given: Optional[str] = given.get("given")


class Setup(Call):
    """What a validator looks at before a run."""

    def __init__(self, session: Session, number: int, frame: Frame) -> None:
        super().__init__(session, number, Path(frame["workspace"]), frame["env"])

    def is_protected(self, path: Union[str, Path]) -> bool:
        """Whether a path, relative to the workspace, has to be as it was when the run began."""
        if "write_check" not in self._session.host_features:
            return False
        return bool(self._request("write_check", path=str(path)).get("refused", True))


# Items.


class Item(Generic[C]):
    """What agents, detectors, validators and formats have in common."""

    kind: ClassVar[str]
    #: The name in ralph.toml; that of the class, as in `file-detector` of `FileDetector`, if it is left out.
    name: ClassVar[str] = ""
    #: One line for display; the first line of the class's documentation, if it is left out.
    summary: str = ""
    #: The JSON Schema of the table, if its type is no dataclass.
    schema: ClassVar[Optional[Mapping[str, Any]]] = None

    def __init__(self, config: C, context: BuildContext) -> None:
        self.config, self.context = config, context
        self.setup()

    def setup(self) -> None:
        """Prepares the instance. Raise `Refused(key, message)` for a mistake in the table."""

    @classmethod
    def item_name(cls) -> str:
        """Returns its name in ralph.toml."""
        return cls.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def _summary(cls) -> str:
        own = cls.summary if isinstance(cls.summary, str) else ""
        return own or (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")

    @classmethod
    def _config_type(cls) -> Any:
        """Returns the type in the brackets of the base class."""
        for parent in cls.__mro__:
            for base in getattr(parent, "__orig_bases__", ()):
                origin = get_origin(base)
                if isinstance(origin, type) and issubclass(origin, Item) and get_args(base):
                    argument = get_args(base)[0]
                    if not isinstance(argument, TypeVar):
                        return argument
        return None if cls.schema is None else Dict[str, Any]

    @classmethod
    def _schema(cls) -> Mapping[str, Any]:
        return cls.schema if cls.schema is not None else schema_of(cls._config_type())

    @classmethod
    def _build(cls, table: Any, context: BuildContext) -> Item[Any]:
        table = {} if table is None else table
        check_table(cls._schema(), table)
        try:
            config = _build_value(cls._config_type(), table)
        except ValueError as error:
            # Of `__post_init__` of the author's dataclass.
            raise Refused((), str(error)) from error
        return cls(config, context)

    def _describe(self, name: str) -> Frame:
        raise NotImplementedError


class Agent(Item[C]):
    """Does the work of an iteration."""

    kind = "agent"
    #: What the agent reports and understands: say what is true.
    capabilities: AbstractSet[Capability] = frozenset()
    #: The absolute path of the agent's program, if it has one.
    program: Optional[str] = None
    #: The model; prices are looked up by it.
    model: Optional[str] = None
    #: Variables of the orchestrator's environment that it needs in a clean one.
    wants_env: Sequence[str] = ()
    #: Prefixes of variables that it must not inherit.
    strips_env: Sequence[str] = ()

    def check(self, env: Mapping[str, str]) -> str:
        """Returns what was found, such as a version. Raise `Failed` if the agent cannot work. Spends nothing."""
        return self.summary or self._summary()

    def run(self, task: Task) -> Union[Report, str, None]:
        """Performs an iteration. Returns the agent's last message, or a report with it."""
        raise NotImplementedError

    def launch(self, task: Task) -> Optional[Launch]:
        """Returns what `run` would start; starts nothing."""
        return None

    def _describe(self, name: str) -> Frame:
        capabilities = {word: True for word in sorted(self.capabilities)}
        return {"agent": {"summary": self.summary or self._summary(), "program": self.program, "model": self.model,
                          "capabilities": capabilities, "wants_env": _list_texts("wants_env", self.wants_env),
                          "strips_env": _list_texts("strips_env", self.strips_env)}}


class Detector(Item[C]):
    """Finds claims. It observes events if it overrides `observe`, and strips claims if it overrides `strip_claims`."""

    kind = "detector"
    #: One or two sentences for the agent: how to claim.
    instructions: str = ""
    #: Texts of which a prompt that explains it has at least one.
    forms: Sequence[str] = ()

    def inspect(self, call: Inspection) -> Union[Findings, Sequence[Claim]]:
        """Finds claims in the workspace and the final message. What is in `call.given` is no claim."""
        return ()

    def observe(self, event: Mapping[str, Any]) -> Sequence[Claim]:
        """Finds claims in an event of the agent."""
        return ()

    def strip_claims(self, prompt: str) -> str:
        """Removes claims from the prompt."""
        return prompt

    def _describe(self, name: str) -> Frame:
        this = type(self)
        return {"detector": {"instructions": self.instructions, "forms": list(self.forms),
                             "observes": this.observe is not Detector.observe,
                             "strips": this.strip_claims is not Detector.strip_claims}}


class Validator(Item[C]):
    """Decides whether a claim is accepted."""

    kind = "validator"
    #: One line that the agent is told: what is required. The summary, if it is left out.
    demands: str = ""
    #: Absolute paths of folders of evidence, which are no part of the work.
    evidence_dirs: Sequence[Union[str, Path]] = ()
    #: Globs of files in the workspace that must stay as they were when the run began.
    protects: Sequence[str] = ()
    #: Globs of what would change its verdict by being there.
    reserved_paths: Sequence[str] = ()
    #: Absolute paths of files outside of the workspace that decide its verdict, such as its program.
    outside_files: Sequence[Union[str, Path]] = ()
    #: Absolute paths that it goes through, which have to lead where they led when the run began.
    passed_paths: Sequence[Union[str, Path]] = ()
    #: Any change that it makes to the workspace is its error.
    read_only: bool = False
    #: It runs something. Set it to False if it only reads what the agent wrote.
    runs_check: bool = True
    #: How often in a row it has to accept.
    passes_required: int = 1

    def check(self, env: Mapping[str, str]) -> str:
        """Returns what was found, such as a version. Raise `Failed` if the validator cannot work."""
        return ""

    def find_setup_problems(self, call: Setup) -> Sequence[SetupProblem]:
        """Returns what the user should know before the run."""
        return ()

    def validate(self, call: Validation) -> Verdict:
        """Decides about a claim."""
        raise NotImplementedError

    def _describe(self, name: str) -> Frame:
        demands = self.demands or self.summary or self._summary()
        paths = {key: [str(path) for path in getattr(self, key)]
                 for key in ("evidence_dirs", "protects", "reserved_paths", "outside_files", "passed_paths")}
        return {"validator": {"description": {"kind": name, "demands": demands}, **paths, "read_only": self.read_only,
                              "runs_check": self.runs_check, "passes_required": self.passes_required}}


class BacklogFormat(Item[C]):
    """Reads and edits the text of a backlog. It reads and writes no file."""

    kind = "backlog"
    order: ItemOrder = "file"
    #: The statuses that a text can hold, pending and completed among them.
    statuses: Sequence[ItemStatus] = ("pending", "completed")
    #: An example of a text.
    example: str = ""
    #: One or two sentences for agents that write into such a text.
    instructions: str = ""

    def read(self, text: str) -> Sequence[BacklogItem]:
        """Returns the items. Raise `Defects` for a text that is not valid."""
        raise NotImplementedError

    def edit(self, text: str, edits: Sequence[BacklogEdit]) -> str:
        """Returns the text after the edits. Raise `NotStorable` or `InvalidItem` where that is not possible."""
        raise NotImplementedError

    def _describe(self, name: str) -> Frame:
        return {"backlog": {"order": self.order, "statuses": list(self.statuses), "example": self.example,
                            "instructions": self.instructions}}


# Frames.


def _wire(value: Any) -> Any:
    """Converts a value to JSON; keys of dataclasses that are None are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _wire(one) for name, one in pairs if one is not None}
    if isinstance(value, (list, tuple)):
        return [_wire(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def encode(frame: Frame) -> bytes:
    """Returns a frame as a line. Raises `ValueError` if it is no JSON or too long."""
    line = json.dumps(frame, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    if len(line) > MAX_FRAME:
        raise ValueError(f"it has {len(line)} bytes, a frame at most {MAX_FRAME}")
    return line + b"\n"


def _write_verdict(verdict: object) -> Frame:
    if isinstance(verdict, Accepted):
        return {"verdict": "accepted", "summary": verdict.summary, "evidence": _wire(verdict.evidence)}
    if isinstance(verdict, Rejected):
        return {"verdict": "rejected", "reasons": verdict.reasons}
    if isinstance(verdict, Undecided):
        return {"verdict": "error", "message": verdict.message}
    raise TypeError(f"validate() returned {verdict!r}, expected Accepted, Rejected or Undecided")


def _write_item(item: BacklogItem) -> Frame:
    frame = cast(Frame, _wire(item))
    line, column = frame.pop("line", None), frame.pop("column")
    return frame if line is None else {**frame, "location": {"line": line, "column": column}}


def _write_defect(defect: Defect) -> Frame:
    frame: Frame = {"message": defect.message, "item": defect.item}
    return frame if defect.line is None else {**frame, "location": {"line": defect.line, "column": defect.column}}


def _read_edit(edit: Frame) -> BacklogEdit:
    if edit["edit"] == "set_status":
        return SetStatus(edit["id"], edit["status"])
    if edit["edit"] == "set_notes":
        return SetNotes(edit["id"], edit["notes"])
    known = {field.name for field in dataclasses.fields(NewItem)}
    return AddItem(NewItem(**{key: value for key, value in edit["item"].items() if key in known}))


def _call_backlog(item: BacklogFormat[Any], frame: Frame) -> Frame:
    if frame["method"] == "read_backlog":
        try:
            return {"backlog": {"items": [_write_item(one) for one in item.read(frame["text"])]}}
        except Defects as error:
            return {"backlog": {"items": [], "defects": [_write_defect(one) for one in error.defects]}}
    try:
        return {"edited": {"text": item.edit(frame["text"], [_read_edit(one) for one in frame["edits"]])}}
    except NotStorable as error:
        return {"edited": {"not_storable": str(error)}}
    except InvalidItem as error:
        return {"edited": {"invalid_item": str(error)}}


def _call_detector(item: Detector[Any], call: Call, frame: Frame) -> Frame:
    if frame["method"] == "observe":
        return {"claims": _wire(list(item.observe(frame["event"])))}
    if frame["method"] == "strip_claims":
        return {"text": item.strip_claims(frame["prompt"])}
    found = item.inspect(cast(Inspection, call))
    return {"findings": _wire(found if isinstance(found, Findings) else Findings(list(found)))}


def _perform(item: Item[Any], call: Call, frame: Frame) -> Frame:
    """Calls the author's method and returns the keys of `done`."""
    method = frame["method"]
    if isinstance(item, (Agent, Validator)) and method == "check":
        return {"found": item.check(frame["env"])}
    if isinstance(item, Agent) and isinstance(call, Task):
        if method == "launch":
            return {"launch": _wire(item.launch(call))}
        ended = item.run(call)
        return {"report": call._report(Report(final_text=ended) if isinstance(ended, str) else ended)}
    if isinstance(item, Validator) and isinstance(call, Validation):
        return {"verdict": _write_verdict(item.validate(call))}
    if isinstance(item, Validator) and isinstance(call, Setup):
        return {"setup_problems": _wire(list(item.find_setup_problems(call)))}
    if isinstance(item, Detector):
        return _call_detector(item, call, frame)
    return _call_backlog(cast(BacklogFormat[Any], item), frame)


# The methods of each kind, and the call that each is given.
_METHODS: Dict[str, Dict[str, Optional[Callable[[Any, int, Frame], Call]]]] = {
    "agent": {"check": None, "run": Task, "launch": Task},
    "validator": {"check": None, "validate": Validation, "find_setup_problems": Setup},
    "detector": {"inspect": Inspection, "observe": None, "strip_claims": None},
    "backlog": {"read_backlog": None, "edit_backlog": None},
}


def _locate(error: BaseException) -> str:
    """Returns the innermost place of an exception outside of this package, where possible beside the plugin."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    folder = os.path.dirname(os.path.abspath(sys.argv[0] or "."))
    own = [frame for frame in frames if os.path.abspath(frame.filename).startswith(folder + os.sep)]
    place = (own or frames or traceback.extract_tb(error.__traceback__))[-1]
    return f"{os.path.basename(place.filename)}:{place.lineno} in {place.name}"


def _panicked(error: BaseException) -> Frame:
    """Returns how an exception of the author's code is reported. The traceback goes to standard error."""
    traceback.print_exception(type(error), error, error.__traceback__)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    return {"frame": "panicked", "message": message, "location": _locate(error)}


class Session:
    """A session with the host. It is given frames one after the other, and never waits for the author's code."""

    def __init__(self, name: str, version: str, items: Sequence[Type[Item[Any]]],
                 write: Callable[[bytes], None]) -> None:
        self.name, self.version = name, version
        self.host_features: Set[str] = set()
        self.items = {(item.kind, item.item_name()): item for item in items}
        if len(self.items) != len(items):
            raise ValueError("two items have the same kind and name: give each a `name`")
        # Mistakes in the types of tables are found at the start.
        self._schemas = {key: item._schema() for key, item in self.items.items()}
        self._write = write
        self._lock = threading.Lock()
        self._window: Optional[int] = None
        self._ended = threading.Condition()
        self._instances: Dict[int, Item[Any]] = {}
        self._calls: Dict[int, Call] = {}
        self._log_level = logging.CRITICAL + 1

    def write(self, encoded: bytes) -> None:
        """Writes a frame that was encoded."""
        with self._lock:
            self._write(encoded)

    def handle_line(self, line: bytes) -> bool:
        """Handles a line of the host; False after the last one. What is no frame is reported and ignored."""
        try:
            frame = json.loads(line.decode("utf-8", "replace"))
            kind = frame["frame"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if line.strip():
                print(f"ignored a line of the host that is no frame: {error!r}: {line[:200]!r}", file=sys.stderr)
            return True
        if kind == "close":
            return False
        try:
            self._handle(kind, frame)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            print(f"ignored an invalid frame `{kind}` of the host: {error!r}", file=sys.stderr)
            if kind == "call" and isinstance(frame.get("call"), int):
                message = f"the frame is invalid: {error!r}"
                self.write(encode({"frame": "failed", "call": frame["call"], "class": "invalid_request",
                                   "message": message}))
        return True

    def _handle(self, kind: str, frame: Frame) -> None:
        if kind == "hello":
            self._handle_hello(frame)
        elif kind == "open":
            self._spawn(self._open, int(frame["instance"]), frame)
        elif kind == "call":
            self._start_call(frame)
        elif kind == "cancel":
            self._cancel(frame)
        elif kind == "ping":
            self.write(encode({"frame": "pong", "n": frame["n"]}))
        elif kind in ("credit", "preview_result", "write_check_result", "guidance_result"):
            call = self._calls.get(frame["call"])
            if call is not None:
                call._take(frame)
        # Whatever else comes is of a newer version.

    def _handle_hello(self, frame: Frame) -> None:
        self.host_features = set(frame.get("features", ()))
        self._window = int(frame.get("window", 64)) if "credit" in self.host_features else None
        levels = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
        provides = [{"kind": kind, "name": name, "summary": item._summary(), "schema": self._schemas[kind, name]}
                    for (kind, name), item in self.items.items()]
        self.write(encode({"frame": "hello", "protocol": PROTOCOL, "name": self.name, "version": self.version,
                           "sdk": f"ralph_orchestrator_sdk {__version__}", "features": list(FEATURES),
                           "provides": provides}))
        self._log_level = levels.get(frame.get("log", "info"), 1)

    def log(self, level: int, target: str, message: str) -> None:
        """Sends a log message, if the host wants it."""
        if level < self._log_level:
            return
        words = [(logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"), (0, "debug")]
        word = next(word for least, word in words if level >= least)
        self.write(encode({"frame": "log", "level": word, "target": target, "message": message[:MAX_TEXT]}))

    def _spawn(self, work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()

    def _open(self, instance: int, frame: Frame) -> None:
        try:
            kind, name = frame["kind"], frame.get("name")
            found = [key for key in self.items if key[0] == kind and (name is None or key[1] == name)]
            if len(found) != 1:
                raise Refused((), f"the plugin has no {kind} `{name}`")
            context = frame["context"]
            built = self.items[found[0]]._build(frame.get("config"), BuildContext(
                Path(context["config_dir"]), Path(context["workspace"]), Path(context["prompt_dir"]), context["path"]))
            opened = encode({"frame": "opened", "instance": instance, **built._describe(found[0][1])})
            self._instances[instance] = built
            self.write(opened)
        except Refused as refused:
            self.write(encode({"frame": "refused", "instance": instance, "key": refused.key,
                               "unknown_key": refused.unknown, "message": refused.message}))
        except BaseException as error:
            panic = _panicked(error)
            message = f"the plugin panicked: {panic['message']} (at {panic['location']})"
            self.write(encode({"frame": "refused", "instance": instance, "key": [], "message": message}))

    def _start_call(self, frame: Frame) -> None:
        number, method = int(frame["call"]), str(frame["method"])
        item = self._instances.get(frame["instance"])
        methods = _METHODS[item.kind] if item is not None else {}
        if item is None or method not in methods:
            what = f"there is no instance {frame['instance']}" if item is None else f"it has no method `{method}`"
            self.write(encode({"frame": "failed", "call": number, "class": "invalid_request", "message": what}))
            return
        make = methods[method]
        call = make(self, number, frame) if make is not None else Call(self, number, Path("."), os.environ)
        call._credit = self._window
        self._calls[number] = call
        self._spawn(self._work, item, call, frame)

    def _work(self, item: Item[Any], call: Call, frame: Frame) -> None:
        """Performs a call in a thread of its own, and answers it."""
        answer: Frame
        try:
            call.check_cancelled()
            answer = {"frame": "done", **_perform(item, call, frame)}
            call.check_cancelled()
        except Failed as failed:
            answer = self._failed(call, failed)
        except BaseException as error:
            answer = self._failed(call, Cancelled(call.cancel_reason)) if call.cancel_reason else _panicked(error)
        try:
            call._answer(answer)
        except (TypeError, ValueError) as error:
            call._answer(self._failed(call, Failed("crashed", f"its result cannot be sent: {error}"[:MAX_TEXT])))
        except Cancelled:
            pass  # The host is gone.
        with self._ended:
            self._calls.pop(call._number, None)
            self._ended.notify_all()

    def _failed(self, call: Call, failed: Failed) -> Frame:
        if call.cancel_reason and failed.error_class != "cancelled":
            failed = Cancelled(call.cancel_reason)
        answer: Frame = {"frame": "failed", "class": failed.error_class, "message": failed.message}
        if failed.until_ms is not None:
            answer["until_ms"] = failed.until_ms
        if isinstance(call, Task):
            answer["report"] = call._report(dataclasses.replace(failed.report or Report(), final_text=None))
        return answer

    def _cancel(self, frame: Frame) -> None:
        call = self._calls.get(frame["call"])
        if call is None:
            return
        reason, grace = str(frame.get("reason", "signal")), float(frame.get("grace_ms", 0)) / 1000
        # Callbacks are the author's code.
        self._spawn(call._cancel, reason)
        # A little earlier than the host, so that the answer is in time.
        timer = threading.Timer(grace * 0.8, self._abandon, args=(call, reason))
        timer.daemon = True
        timer.start()

    def _abandon(self, call: Call, reason: str) -> None:
        """Answers a cancelled call whose code did not return. What it does later changes nothing."""
        message = "it did not end after cancellation"
        call._answer({**self._failed(call, Cancelled(reason)), "message": message})

    def end(self, grace: float = CLOSE_GRACE) -> None:
        """Cancels all calls and waits until they have ended."""
        for call in list(self._calls.values()):
            self._spawn(call._cancel, "signal")
        with self._ended:
            self._ended.wait_for(lambda: not self._calls, grace)


class _HostLog(logging.Handler):
    """Sends what is logged to the host."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._session.log(record.levelno, record.name, self.format(record))
        except Exception:
            self.handleError(record)


def _read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yields whole lines. One that is longer than a frame may be is skipped, without being kept."""
    while True:
        line = stream.readline(MAX_FRAME + 2)
        if line.endswith(b"\n"):
            yield line
            continue
        if len(line) <= MAX_FRAME:
            if line.strip():
                print(f"ignored {len(line)} bytes of a frame without its end", file=sys.stderr)
            return
        while line and not line.endswith(b"\n"):
            line = stream.readline(65536)
        print(f"ignored a line of the host with more than {MAX_FRAME} bytes", file=sys.stderr)


class _Terminated(BaseException):
    """Raised in the main thread by SIGTERM."""


def _terminate(*_: Any) -> None:
    raise _Terminated


def _ignore(*_: Any) -> None:
    """Handles SIGINT: a run that has to end cancels its calls. Unlike SIG_IGN this is not inherited."""


def _serve(session: Session, frames_in: BinaryIO) -> int:
    status = 0
    try:
        for line in _read_lines(frames_in):
            if not session.handle_line(line):
                break
    except BrokenPipeError:
        status = 0  # The host is gone.
    except _Terminated:
        status = 128 + signal.SIGTERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    session.end()
    return status


def run(*items: Type[Item[Any]], name: str = "", version: str = "0.1.0") -> None:
    """Speaks with the host until it ends the session, and ends the process at once. Call it last.

    The plugin's name is that of its only item, or of the script, if it is left out. Does nothing at the end of a module
    that is imported, as a test does.
    """
    caller = sys._getframe(1)
    if caller.f_code.co_name == "<module>" and caller.f_globals.get("__name__") != "__main__":
        return
    name = name or (items[0].item_name() if len(items) == 1 else os.path.splitext(os.path.basename(sys.argv[0]))[0])
    if sys.stdin.isatty():
        print(f"{name} is a plugin of ralph-orchestrator. Try `ralph-orchestrator plugin check {name}` in the folder of "
              "a ralph.toml that names it.", file=sys.stderr)
        raise SystemExit(64)
    # Nothing but frames may go to standard output, and nobody but this session reads standard input: programs that
    # the plugin starts get other ones, and so does `print`, with what it has not flushed yet.
    frames_in, frames_out = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            stream.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def write(encoded: bytes) -> None:
        view = memoryview(encoded)
        try:
            while view:
                view = view[os.write(frames_out, view):]
        except BrokenPipeError:
            if threading.current_thread() is threading.main_thread():
                raise
            os.kill(os.getpid(), signal.SIGTERM)
            raise Cancelled("the host is gone") from None

    session = Session(name, version, items, write)
    logging.getLogger().addHandler(_HostLog(session))
    logging.getLogger().setLevel(logging.DEBUG)
    signal.signal(signal.SIGINT, _ignore)
    signal.signal(signal.SIGTERM, _terminate)
    status = _serve(session, frames_in)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of calls that did not end do not keep it.
    os._exit(status)
