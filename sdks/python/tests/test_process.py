"""A plugin as a process: what host and author may do wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional

PLUGIN = Path(__file__).with_name("plugin.py")
CONTEXT = {"config_dir": "/", "workspace": "/tmp", "prompt_dir": "/", "path": "/usr/bin:/bin"}
NAMES = {"validator": "odd", "agent": "endless"}
HELLO = {"frame": "hello", "protocol": 1, "host": "test", "features": ["ping"], "log": "info"}


class Host:
    """The host's side of a plugin's process."""

    def __init__(self) -> None:
        self.child = subprocess.Popen([sys.executable, str(PLUGIN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
        self.send(HELLO)
        self.hello = self.receive()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert stream is not None
            stream.close()

    def write(self, line: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(line)
        self.child.stdin.flush()

    def send(self, frame: Dict[str, Any]) -> None:
        self.write(json.dumps(frame).encode() + b"\n")

    def receive(self) -> Dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        frame: Dict[str, Any] = json.loads(line)
        return frame

    def open(self, kind: str = "validator") -> Dict[str, Any]:
        self.send({"frame": "open", "instance": 1, "kind": kind, "name": NAMES[kind], "config": {}, "context": CONTEXT})
        return self.receive()

    def validate(self, text: str, call: int = 1) -> None:
        claim = {"kind": "complete", "detector": "d", "source": "message", "text": text}
        context = {"run": "r", "iteration": 1, "claim": claim, "workspace": "/tmp", "tree_since": 1, "env": {}}
        self.send({"frame": "call", "call": call, "instance": 1, "method": "validate", "context": context})

    def answer(self, text: str) -> Dict[str, Any]:
        self.open()
        self.validate(text)
        return self.receive()

    def end(self) -> bytes:
        """Closes standard input; returns what came on standard error."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        assert self.child.stdout is not None and self.child.stderr is not None
        rest = self.child.stdout.read()
        assert rest == b"", rest
        said = self.child.stderr.read()
        assert self.child.wait(30) == 0, said
        return said


class ProcessTest(unittest.TestCase):
    def test_hello_names_the_items(self) -> None:
        with Host() as host:
            self.assertEqual(host.hello["name"], "odd")
            provided = [(one["kind"], one["name"], one["summary"]) for one in host.hello["provides"]]
            self.assertEqual(provided, [("validator", "odd", "does what the claim says"),
                                        ("agent", "endless", "prints for ever")])
            self.assertIn(b"printed before run() is called", host.end())

    def test_prints_of_plugin_and_programs_go_to_standard_error(self) -> None:
        with Host() as host:
            self.assertEqual(host.answer("print")["verdict"]["summary"], "5 characters")
            said = host.end()
            self.assertIn(b"printed\n", said)
            self.assertIn(b"printed by a program", said)

    def test_standard_input_of_the_plugin_is_empty(self) -> None:
        with Host() as host:
            self.assertEqual(host.answer("read")["verdict"]["summary"], "''")

    def test_an_exception_is_reported_with_its_place(self) -> None:
        with Host() as host:
            answer = host.answer("raise")
            self.assertEqual((answer["frame"], answer["message"]), ("panicked", "ValueError: bad value"))
            self.assertRegex(answer["location"], r"^plugin\.py:\d+ in validate$")
            # The plugin goes on.
            host.validate("x", 2)
            self.assertEqual(host.receive()["call"], 2)
            self.assertIn(b"Traceback", host.end())

    def test_an_exit_of_a_handler_fails_its_call(self) -> None:
        with Host() as host:
            answer = host.answer("exit")
            self.assertEqual((answer["frame"], answer["message"]), ("panicked", "SystemExit: 3"))

    def test_what_is_no_verdict_is_named(self) -> None:
        with Host() as host:
            self.assertIn("returned None, expected Accepted", host.answer("no verdict")["message"])

    def test_a_result_that_is_too_long_fails_the_call(self) -> None:
        with Host() as host:
            answer = host.answer("huge")
            self.assertEqual((answer["frame"], answer["class"]), ("failed", "crashed"))
            self.assertIn("a frame at most 16777216", answer["message"])

    def test_what_is_logged_reaches_the_host(self) -> None:
        with Host() as host:
            log = host.answer("log")
            self.assertEqual((log["frame"], log["level"], log["message"]), ("log", "warn", "warned of this"))
            self.assertEqual(host.receive()["frame"], "done")

    def test_bad_lines_of_the_host_are_ignored(self) -> None:
        with Host() as host:
            for line in (b"not json\n", b"\n", b"[1]\n", b"7\n", b"{}\n", b"\xff\xfe\n", b'{"frame":7}\n',
                         b'{"frame":"new","x":1}\n', b'{"frame":"open"}\n', b'{"frame":"cancel"}\n',
                         b'{"frame":"cancel","call":9,"reason":"signal","grace_ms":1}\n', b'{"frame":"credit"}\n',
                         b"[" * 100000 + b"\n"):
                host.write(line)
            host.send({"frame": "call", "call": 7, "instance": 9, "method": "validate"})
            self.assertEqual(host.receive()["message"], "there is no instance 9")
            host.open()
            host.send({"frame": "call", "call": 8, "instance": 1, "method": "validate"})
            self.assertEqual(host.receive()["class"], "invalid_request")
            host.send({"frame": "call", "call": 9, "instance": 1, "method": "new"})
            self.assertEqual(host.receive()["message"], "it has no method `new`")
            self.assertEqual(host.answer("x")["frame"], "done")

    def test_a_line_of_64_mib_is_skipped(self) -> None:
        with Host() as host:
            host.write(b'{"frame":"ping","n":"' + b"x" * (64 * 1024 * 1024) + b'"}\n')
            host.send({"frame": "ping", "n": 2})
            self.assertEqual(host.receive(), {"frame": "pong", "n": 2})
            self.assertIn(b"more than 16777216 bytes", host.end())

    def test_the_end_of_input_in_a_frame_ends_the_plugin(self) -> None:
        with Host() as host:
            host.write(b'{"frame":"ping"')
            self.assertIn(b"without its end", host.end())

    def test_the_end_of_input_cancels_calls(self) -> None:
        with Host() as host:
            host.open()
            host.validate("sleep")
            host.send({"frame": "ping", "n": 1})
            host.receive()
            assert host.child.stdin is not None
            host.child.stdin.close()
            self.assertEqual(host.receive()["class"], "cancelled")
            self.assertEqual(host.child.wait(30), 0)

    def test_a_call_that_hangs_does_not_keep_the_plugin(self) -> None:
        with Host() as host:
            host.open()
            host.validate("hang")
            self.assertEqual(host.receive()["message"], "hangs")
            host.send({"frame": "close"})
            self.assertEqual(host.child.wait(30), 0)

    def test_a_call_that_hangs_is_answered_when_it_is_cancelled(self) -> None:
        with Host() as host:
            host.open()
            host.validate("hang")
            self.assertEqual(host.receive()["message"], "hangs")
            host.send({"frame": "cancel", "call": 1, "reason": "timeout", "grace_ms": 500})
            answer = host.receive()
            self.assertEqual((answer["class"], answer["message"]), ("cancelled", "it did not end after cancellation"))

    def test_a_host_that_is_gone_ends_the_plugin(self) -> None:
        with Host() as host:
            host.open("agent")
            task = {"run": "r", "number": 1, "prompt": "p", "workspace": "/tmp", "env": {}, "scratch": "/tmp"}
            host.send({"frame": "call", "call": 1, "instance": 1, "method": "run", "task": task})
            self.assertEqual(host.receive()["event"], {"type": "text", "text": "more"})
            assert host.child.stdout is not None
            host.child.stdout.close()
            host.child.wait(30)

    def test_sigterm_ends_the_plugin_and_sigint_does_not(self) -> None:
        with Host() as host:
            host.open()
            host.validate("sleep")
            os.kill(host.child.pid, signal.SIGINT)
            host.send({"frame": "ping", "n": 1})
            self.assertEqual(host.receive()["frame"], "pong")
            os.kill(host.child.pid, signal.SIGTERM)
            self.assertEqual(host.receive()["class"], "cancelled")
            self.assertEqual(host.child.wait(30), 143)


if __name__ == "__main__":
    unittest.main()
