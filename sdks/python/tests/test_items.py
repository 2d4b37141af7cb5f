"""Items of each kind, driven in-process."""

from __future__ import annotations

import os
import sys
import threading
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from ralph_orchestrator_sdk import (  # noqa: E402
    Accepted, AddItem, Agent, BacklogEdit, BacklogFormat, BacklogItem, Claim, Defect, Defects, Detector, Failed,
    Inspection, InvalidItem, Launch, NewItem, NotStorable, Refused, Rejected, Report, SetNotes, SetStatus, Setup,
    SetupProblem, Task, Tokens, Undecided, Validation, Validator, Verdict, check_table, schema_of)
from ralph_orchestrator_sdk.testing import Panicked, RunningCall, Workspace  # noqa: E402


@dataclass
class Step:
    run: str
    weight: float = 1


@dataclass
class Config:
    file: str = field(metadata={"description": "The file."})
    mode: Literal["fast", "slow"] = "fast"
    steps: List[Step] = field(default_factory=list)
    limit: Optional[int] = None
    names: Tuple[str, ...] = ()
    env: Dict[str, str] = field(default_factory=dict)
    folder: Path = Path(".")

    def __post_init__(self) -> None:
        if self.limit == 0:
            raise ValueError("limit: expected more than 0")


class Judge(Validator[Config]):
    """requires a file

    More about it.
    """

    protects = ["tests/**"]
    runs_check = False

    def setup(self) -> None:
        if os.path.isabs(self.config.file):
            raise Refused("file", "expected a relative path")
        self.outside_files = [Path("/bin/sh")]
        self.demands = f"{self.config.file} is there"

    def check(self, env: Mapping[str, str]) -> str:
        if self.config.mode == "slow":
            raise Failed("unavailable", "it is too slow")
        return "v1"

    def find_setup_problems(self, call: Setup) -> Sequence[SetupProblem]:
        if call.is_protected("tests"):
            return []
        return [SetupProblem("tests are not protected", ["file"], is_fatal=True)]

    def validate(self, call: Validation) -> Verdict:
        if call.claim.text == "wait":
            call.wait(60)
        if call.protected_changes:
            return Undecided(f"{call.protected_changes[0].path} was {call.protected_changes[0].kind}")
        if call.read_text(self.config.file) is None:
            return Rejected(f"{self.config.file} is missing: write it")
        return Accepted("it is there", [call.workspace / self.config.file])


class ConfigTest(unittest.TestCase):
    def test_a_dataclass_has_a_schema(self) -> None:
        schema = schema_of(Config)
        self.assertEqual(schema["required"], ["file"])
        self.assertEqual(schema["properties"]["file"], {"type": "string", "description": "The file."})
        self.assertEqual(schema["properties"]["limit"], {"type": "integer"})
        self.assertEqual(schema["properties"]["steps"]["items"]["required"], ["run"])
        with self.assertRaisesRegex(TypeError, "cannot be the type of a key"):
            schema_of(complex)
        with self.assertRaisesRegex(TypeError, "whose elements have one type"):
            schema_of(Tuple[int, str])

    def test_values_become_those_of_the_dataclass(self) -> None:
        with Workspace() as workspace:
            seen: List[Config] = []

            class See(Judge):
                def setup(self) -> None:
                    seen.append(self.config)

            workspace.open(See, {"file": "a", "steps": [{"run": "x", "weight": 2}], "names": ["b"], "folder": "c"})
            self.assertEqual(seen, [Config("a", steps=[Step("x", 2.0)], names=("b",), folder=Path("c"))])
            self.assertIsInstance(seen[0].steps[0].weight, float)

    def test_mistakes_are_refused_at_their_key(self) -> None:
        cases: List[Tuple[Dict[str, Any], List[str], Optional[str], str]] = [
            ({}, [], None, "missing field `file`"),
            ({"file": 7}, ["file"], None, "expected a string, found a number"),
            ({"file": "a", "fiel": 1}, [], "fiel", "unknown field `fiel`, expected one of `file`"),
            ({"file": "a", "mode": "x"}, ["mode"], None, 'expected "fast" or "slow"'),
            ({"file": "a", "steps": [{"run": "x"}, {}]}, ["steps", "1"], None, "missing field `run`"),
            ({"file": "a", "env": {"A": 1}}, ["env", "A"], None, "expected a string, found a number"),
            ({"file": "a", "limit": True}, ["limit"], None, "expected an integer, found a boolean"),
            ({"file": "a", "limit": 0}, [], None, "limit: expected more than 0"),
            ({"file": "/a"}, ["file"], None, "expected a relative path"),
        ]
        with Workspace() as workspace:
            for table, key, unknown, message in cases:
                with self.subTest(table), self.assertRaises(Refused) as refused:
                    workspace.open(Judge, table)
                self.assertEqual((refused.exception.key, refused.exception.unknown), (key, unknown), table)
                self.assertIn(message, refused.exception.message)

    def test_a_schema_may_be_a_dict(self) -> None:
        class Free(Validator[Dict[str, Any]]):
            schema = {"type": "object", "properties": {"depth": {"type": "integer"}}, "additionalProperties": False}

            def validate(self, call: Validation) -> Verdict:
                return Accepted(str(self.config["depth"]))

        with Workspace() as workspace:
            verdict = workspace.open(Free, {"depth": 3}).validate()
            assert isinstance(verdict, Accepted)
            self.assertEqual(verdict.summary, "3")
            with self.assertRaises(Refused):
                workspace.open(Free, {"depth": "3"})

    def test_unknown_parts_of_a_schema_are_ignored(self) -> None:
        check_table({"type": "new", "pattern": "x", "patternProperties": {}, "additionalProperties": False}, {"a": 1})


class ValidatorTest(unittest.TestCase):
    def test_its_description_is_what_it_says(self) -> None:
        with Workspace() as workspace:
            described = workspace.open(Judge, {"file": "a"}).description
            self.assertEqual(described["description"], {"kind": "judge", "demands": "a is there"})
            self.assertEqual((described["protects"], described["outside_files"]), (["tests/**"], ["/bin/sh"]))
            self.assertFalse(described["runs_check"])

    def test_verdicts(self) -> None:
        with Workspace() as workspace:
            item = workspace.open(Judge, {"file": "a"})
            rejected = item.validate()
            assert isinstance(rejected, Rejected)
            self.assertEqual(rejected.reasons, ["a is missing: write it"])
            workspace.write("a", "x")
            accepted = item.validate()
            assert isinstance(accepted, Accepted)
            self.assertEqual(accepted.evidence[0].path, str(workspace.path / "a"))
            undecided = item.validate(protected_changes=[{"path": "tests/a", "kind": "removed"}])
            assert isinstance(undecided, Undecided)
            self.assertEqual(undecided.message, "tests/a was removed")
        with self.assertRaises(ValueError):
            Rejected()

    def test_check_and_setup_problems(self) -> None:
        with Workspace() as workspace:
            self.assertEqual(workspace.open(Judge, {"file": "a"}).check(), "v1")
            with self.assertRaises(Failed) as failed:
                workspace.open(Judge, {"file": "a", "mode": "slow"}).check()
            self.assertEqual(failed.exception.error_class, "unavailable")
            item = workspace.open(Judge, {"file": "a"})
            problem = {"message": "tests are not protected", "key": ["file"], "is_fatal": True}
            self.assertEqual(item.find_setup_problems(), [problem])
            workspace.refused_writes = ["tests"]
            self.assertEqual(item.find_setup_problems(), [])

    def test_a_call_that_waits_is_cancelled(self) -> None:
        with Workspace() as workspace:
            call = workspace.open(Judge, {"file": "a"}).start_validate("wait")
            with self.assertRaises(Failed) as failed:
                call.cancel("timeout").result()
            self.assertEqual(failed.exception.message, "it was cancelled: timeout")

    def test_only_regular_files_of_the_workspace_are_read(self) -> None:
        with Workspace() as workspace:
            item = workspace.open(Judge, {"file": "a"})
            os.mkfifo(workspace.path / "a")
            self.assertIsInstance(item.validate(), Rejected)
            os.remove(workspace.path / "a")
            os.symlink("/etc/passwd", workspace.path / "a")
            self.assertIsInstance(item.validate(), Rejected)
            os.remove(workspace.path / "a")
            (workspace.path / "a").mkdir()
            self.assertIsInstance(item.validate(), Rejected)


class Worker(Agent[None]):
    """does what the prompt says"""

    capabilities = {"cost", "tokens"}
    model = "m"
    reports: Dict[str, Report] = {}

    def launch(self, task: Task) -> Optional[Launch]:
        return Launch("/bin/sh", ["-c", task.prompt])

    def run(self, task: Task) -> Report:
        task.session("s-1", "m")
        task.usage(cost=0.5)
        task.usage(tokens=Tokens(input=3))
        if task.prompt == "fail":
            raise Failed("rate_limited", "later", until_ms=7, report=Report(final_text="no"))
        if task.prompt == "raise":
            return self.reports["x"]
        if task.prompt == "all":
            self.send_all(task)
        elif task.prompt == "many":
            for number in range(1000):
                task.text(str(number))
        elif task.prompt == "nan":
            task.usage(cost=float("nan"))
        elif task.prompt.startswith("sh "):
            ended = task.run_program(["sh", "-c", task.prompt[3:]], on_output=task.text, input="given")
            return Report(f"{ended.status} {ended.output}")
        return Report("did it")

    def send_all(self, task: Task) -> None:
        task.text("x" * (1024 * 1024 + 1))
        task.thinking("hm")
        id = task.tool_call("bash", {"command": "true"})
        task.tool_result(id, "out", is_error=True)
        task.context(7, 9)
        task.rate_window("weekly", 0.5, 3)
        task.claim("done")
        task.note("later")
        task.waiting("busy", 5)
        task.stderr("line")
        task.raw("{}")
        task.warning("careful")
        task.text("\ud800")
        preview = task.preview("done")
        task.text(f"{preview.result} {preview.reasons}")
        task.text(f"{task.is_write_refused('a')} {task.is_write_refused(task.workspace / 'b')}")
        task.text(str([one.text for one in task.take_guidance()]))
        task.text(str(task.take_guidance()))
        (task.scratch / "tools.json").write_text('{"command": ["ralph", "mcp"]}')
        task.text(str(task.tool_server_command()))


class AgentTest(unittest.TestCase):
    def start(self, workspace: Workspace, prompt: str) -> RunningCall:
        return workspace.open(Worker).start_run(prompt)

    def test_its_description(self) -> None:
        with Workspace() as workspace:
            item = workspace.open(Worker)
            self.assertEqual(item.description["capabilities"], {"cost": True, "tokens": True})
            self.assertEqual((item.description["summary"], item.description["model"]), ("does what the prompt says", "m"))
            task = {"run": "r", "number": 1, "prompt": "{prompt}", "workspace": "/", "env": {}, "scratch": "{scratch}"}
            launch = item.start("launch", task=task).result()["launch"]
            self.assertEqual(launch, {"program": "/bin/sh", "argv": ["-c", "{prompt}"]})

    def test_all_events_are_sent_in_order(self) -> None:
        with Workspace() as workspace:
            workspace.previews = [{"result": "rejected", "reasons": ["no"]}]
            workspace.refused_writes, workspace.guidance = ["a"], ["look"]
            report, events = workspace.open(Worker).run("all")
            self.assertEqual([event["type"] for event in events], [
                "session", "usage", "usage", "text", "text", "thinking", "tool_call", "tool_result", "context",
                "rate_window", "claim", "note", "waiting", "stderr", "raw", "warning", *["text"] * 6])
            self.assertEqual(events[2]["usage"]["cost"], 0.5)
            self.assertEqual(events[7]["id"], events[6]["id"])
            self.assertEqual([event["text"] for event in events[-5:]], [
                "rejected ('no',)", "True False", "['look']", "[]", "['ralph', 'mcp']"])
            # What was sent is in the report.
            self.assertEqual((report["final_text"], report["session"]), ("did it", "s-1"))
            self.assertEqual(report["usage"]["tokens"]["input"], 3)

    def test_it_waits_for_credit(self) -> None:
        with Workspace() as workspace:
            _, events = workspace.open(Worker).run("many")
            self.assertEqual(len(events), 1003)

    def test_a_failure_has_a_class_and_a_report_without_final_text(self) -> None:
        with Workspace() as workspace:
            call = self.start(workspace, "fail")
            with self.assertRaises(Failed) as failed:
                call.result()
            self.assertEqual((failed.exception.error_class, failed.exception.until_ms), ("rate_limited", 7))
            report = call.report()
            self.assertNotIn("final_text", report)
            self.assertEqual((report["session"], report["usage"]["cost"]), ("s-1", 0.5))

    def test_an_exception_is_located(self) -> None:
        with Workspace() as workspace:
            with self.assertRaises(Panicked) as panicked:
                workspace.open(Worker).run("raise")
            self.assertEqual(panicked.exception.message, "KeyError: 'x'")
            self.assertRegex(panicked.exception.location, r"^test_items\.py:\d+ in run$")

    def test_what_is_no_json_fails_the_call(self) -> None:
        with Workspace() as workspace:
            with self.assertRaisesRegex(Panicked, "the event usage cannot be sent"):
                workspace.open(Worker).run("nan")

    def test_a_prompt_that_is_no_utf8_is_an_invalid_request(self) -> None:
        with Workspace() as workspace:
            with self.assertRaises(Failed) as failed:
                workspace.open(Worker).run(b"\xff")
            self.assertEqual(failed.exception.error_class, "invalid_request")

    def test_a_program_is_run_and_ended(self) -> None:
        with Workspace() as workspace:
            report, events = workspace.open(Worker).run("sh cat; echo; (sleep 1000; echo late) & exit 3")
            self.assertEqual(report["final_text"], "3 given\n")
            self.assertEqual("".join(event.get("text", "") for event in events), "given\n")
            with self.assertRaises(Failed) as failed:
                self.start(workspace, "sh cat").cancel().result()
            self.assertEqual(failed.exception.error_class, "cancelled")

    def test_a_program_is_ended_when_the_call_is_cancelled(self) -> None:
        with Workspace() as workspace:
            # It ignores SIGTERM, and what it has started writes to a pipe of its own.
            call = self.start(workspace, "sh trap '' TERM; sleep 1000 & echo begun; wait; sleep 1000")
            call.wait_for_event("text")
            with self.assertRaises(Failed) as failed:
                call.cancel("idle").result()
            self.assertEqual(failed.exception.message, "it was cancelled: idle")

    def test_one_text_is_no_list_of_texts(self) -> None:
        class Command(Agent[None]):
            def run(self, task: Task) -> str:
                return task.run_program("echo hi").output

        class Wanting(Agent[None]):
            wants_env = "MY_KEY"

        with Workspace() as workspace:
            with self.assertRaisesRegex(Panicked, "argv: expected a list of texts"):
                workspace.open(Command).run("x")
            with self.assertRaisesRegex(Refused, "wants_env: expected a list of texts"):
                workspace.open(Wanting)

    def test_a_program_that_cannot_be_run_or_is_late(self) -> None:
        class Late(Agent[None]):
            def run(self, task: Task) -> str:
                return task.run_program(task.prompt.split(), timeout=0.1).output

        with Workspace() as workspace:
            for prompt, error_class in (("/none", "unavailable"), ("sleep 1000", "timed_out")):
                with self.assertRaises(Failed) as failed:
                    workspace.open(Late).run(prompt)
                self.assertEqual(failed.exception.error_class, error_class)

    def test_on_cancel_is_called_once_even_if_it_is_late(self) -> None:
        called: List[str] = []
        ready, go = threading.Event(), threading.Event()

        class Callbacks(Agent[None]):
            def run(self, task: Task) -> None:
                task.on_cancel(lambda: called.append("early"))
                task.on_cancel(lambda: called.append("never"))()
                task.on_cancel(lambda: go.set())
                ready.set()
                go.wait()
                task.on_cancel(lambda: called.append("late"))

        with Workspace() as workspace:
            call = workspace.open(Callbacks).start_run()
            ready.wait()
            with self.assertRaises(Failed):
                call.cancel().result()
        self.assertEqual(called, ["early", "late"])


class Marks(Detector[None]):
    """finds marks"""

    instructions = "Write DONE."
    forms = ["DONE"]

    def inspect(self, call: Inspection) -> Sequence[Claim]:
        text = call.final_text or ""
        return [Claim(text)] if "DONE" in text and text not in (call.given or "") else []

    def observe(self, event: Mapping[str, Any]) -> Sequence[Claim]:
        return [Claim(event["text"], "needs_human", "tool")] if event["type"] == "text" else []

    def strip_claims(self, prompt: str) -> str:
        return prompt.replace("DONE", "")


class DetectorTest(unittest.TestCase):
    def test_it_finds_claims(self) -> None:
        with Workspace() as workspace:
            item = workspace.open(Marks)
            self.assertEqual((item.description["observes"], item.description["strips"]), (True, True))
            self.assertEqual(item.inspect("DONE"), [Claim("DONE")])
            self.assertEqual(item.inspect("DONE", given="DONE"), [])
            self.assertEqual(item.observe(type="text", text="x"), [Claim("x", "needs_human", "tool")])
            self.assertEqual(item.strip_claims("a DONE"), "a ")

    def test_what_is_not_overridden_is_not_announced(self) -> None:
        class Nothing(Detector[None]):
            pass

        with Workspace() as workspace:
            item = workspace.open(Nothing)
            self.assertEqual((item.description["observes"], item.description["strips"]), (False, False))
            self.assertEqual(item.inspect("x"), [])


class Lines(BacklogFormat[None]):
    """one item a line"""

    def read(self, text: str) -> Sequence[BacklogItem]:
        if text.startswith("!"):
            raise Defects(Defect("a bad line", line=1, item="x"))
        return [BacklogItem(line, line, line=number) for number, line in enumerate(text.splitlines(), 1)]

    def edit(self, text: str, edits: Sequence[BacklogEdit]) -> str:
        for edit in edits:
            if isinstance(edit, SetNotes):
                raise NotStorable("notes")
            elif isinstance(edit, AddItem):
                if not edit.item.title:
                    raise InvalidItem("it has no title")
                text += edit.item.title + "\n"
            else:
                text += f"{edit.id} {edit.status}\n"
        return text


class BacklogTest(unittest.TestCase):
    def test_it_reads_and_edits(self) -> None:
        with Workspace() as workspace:
            item = workspace.open(Lines)
            self.assertEqual(item.description["order"], "file")
            read = item.read("a\nb\n")["items"]
            self.assertEqual((read[1]["id"], read[1]["location"]), ("b", {"line": 2, "column": 1}))
            defects = item.read("!")["defects"]
            self.assertEqual(defects, [{"message": "a bad line", "item": "x", "location": {"line": 1, "column": 1}}])
            edits: List[BacklogEdit] = [AddItem(NewItem("c")), SetStatus("a", "completed")]
            self.assertEqual(item.edit("a\n", edits), {"text": "a\nc\na completed\n"})
            self.assertEqual(item.edit("", [SetNotes("a", [])]), {"not_storable": "notes"})
            self.assertEqual(item.edit("", [AddItem(NewItem(""))]), {"invalid_item": "it has no title"})


if __name__ == "__main__":
    unittest.main()
