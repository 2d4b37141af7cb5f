"""An item of each kind but an agent, for the conformance tests."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Sequence

from ralph_orchestrator_sdk import (Accepted, AddItem, BacklogEdit, BacklogFormat, BacklogItem, Claim, Detector, Findings,
                                    Inspection, InvalidItem, NearMiss, NotStorable, Rejected, SetStatus, Setup,
                                    SetupProblem, Validation, Validator, Verdict, run)

MARK = re.compile(r"<<(.*?)>>", re.DOTALL)
ITEM = re.compile(r"\[( |x)\] (\S.*)")


class Marks(Detector[None]):
    """finds <<marks>>"""

    name = "marks"
    instructions = "Write what you did between two angle brackets on each side."

    def inspect(self, call: Inspection) -> Findings:
        text = call.final_text or ""
        given = call.given or ""
        claims = [Claim(found[1]) for found in MARK.finditer(text) if found[0] not in given]
        near = [NearMiss(text[:20], 1, "close it by >>")] if "<<" in text and ">>" not in text else []
        return Findings(claims, near)

    def observe(self, event: Mapping[str, Any]) -> Sequence[Claim]:
        return [Claim(event["text"], source="tool")] if event["type"] == "text" and "<<" in event["text"] else []

    def strip_claims(self, prompt: str) -> str:
        return MARK.sub("", prompt).replace("<<", "").replace(">>", "")


class Written(Validator[None]):
    """requires a.txt"""

    name = "written"
    demands = "a.txt is there"
    read_only = True

    def find_setup_problems(self, call: Setup) -> List[SetupProblem]:
        return [] if call.is_protected("a.txt") else [SetupProblem("a.txt is not protected")]

    def validate(self, call: Validation) -> Verdict:
        ended = call.run_program(["cat", "a.txt"], merge_stderr=True)
        if ended.status == 0:
            return Accepted("a.txt is there", ["a.txt"] if not call.workspace else [call.workspace / "a.txt"])
        return Rejected(f"{ended.output.strip()}: write it")


class Boxes(BacklogFormat[None]):
    """a line with a box for each item"""

    name = "boxes"
    example = "[ ] log in\n[x] sign up\n"

    def read(self, text: str) -> Sequence[BacklogItem]:
        items: List[BacklogItem] = []
        for number, line in enumerate(text.split("\n"), 1):
            found = ITEM.fullmatch(line)
            if found:
                title = found[2].strip()
                items.append(BacklogItem(title, title, "completed" if found[1] == "x" else "pending", line=number))
        return items

    def edit(self, text: str, edits: Sequence[BacklogEdit]) -> str:
        for edit in edits:
            if isinstance(edit, AddItem):
                item = edit.item
                if item.id not in (None, item.title) or item.description or item.category or item.priority is not None:
                    raise NotStorable("more than a title")
                if item.criteria or item.dependencies:
                    raise NotStorable("criteria and dependencies")
                if not item.title.strip() or "\n" in item.title:
                    raise InvalidItem("its title is no line")
                text += ("" if text.endswith("\n") or not text else "\n") + f"[ ] {item.title}\n"
            elif isinstance(edit, SetStatus):
                lines = text.split("\n")
                number = next(one.line or 0 for one in self.read(text) if one.id == edit.id) - 1
                lines[number] = ("[x]" if edit.status == "completed" else "[ ]") + lines[number][3:]
                text = "\n".join(lines)
            else:
                raise NotStorable("notes")
        return text


run(Marks, Written, Boxes, name="every")
