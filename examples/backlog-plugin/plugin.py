#!/usr/bin/env python3
"""A format of backlogs for ralph-orchestrator, with nothing but Python's standard library.

It reads and edits lists in the form of todo.txt:

    (A) Users log in with a password id:login
      - a wrong password is refused
    x Users sign up id:sign-up
    (B) Users log out id:logout after:login
      > the session is kept in a cookie

`(A)` is the priority, `x` says that the item is complete, `id:` names it and `after:` what it depends on.
Indented lines belong to the item above them: `-` a criterion, `>` a note. All other lines are kept.
"""

import json
import re
import sys

ITEM = re.compile(r"(?P<done>x )?(?P<priority>\([A-Z]\) )?(?P<rest>\S.*)")
# Items without a priority come after those with one.
NO_PRIORITY = 26
EXAMPLE = "(A) Users log in id:login\n  - a wrong password is refused\nUsers log out id:logout after:login\n"


class Unstorable(Exception):
    """The format has no place for this."""


def slug(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "item"


def split(text):
    """Returns the lines with their ends, which are kept as they are."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def parse(lines):
    """Returns the items and the defects of a text; each item knows its lines."""
    items, defects = [], []
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        if text[0].isspace():
            if not items:
                location = {"line": number, "column": 1}
                message = "an indented line without an item above it; remove the indentation"
                defects.append({"location": location, "message": message})
            elif text.strip().startswith("- "):
                items[-1]["criteria"].append(text.strip()[2:])
            elif text.strip().startswith("> "):
                items[-1]["notes"].append(text.strip()[2:])
                items[-1]["note_lines"].append(number)
            if items:
                items[-1]["last"] = number
            continue
        items.append(parse_item(text, number))
    return items, defects


def parse_item(text, number):
    found = ITEM.fullmatch(text)
    words = found["rest"].split()
    keys = dict(word.split(":", 1) for word in words if re.match(r"(id|after):\S", word))
    title = " ".join(word for word in words if not re.match(r"(id|after):\S", word))
    priority = found["priority"]
    return {
        "id": keys.get("id") or slug(title), "title": title,
        "status": "completed" if found["done"] else "pending",
        "priority": ord(priority[1]) - ord("A") if priority else NO_PRIORITY,
        "dependencies": keys["after"].split(",") if "after" in keys else [],
        "criteria": [], "notes": [], "note_lines": [], "last": number,
        "location": {"line": number, "column": 1},
    }


def set_status(lines, item, status):
    at = item["location"]["line"] - 1
    if item["status"] != status:
        lines[at] = "x " + lines[at] if status == "completed" else lines[at][2:]


def set_notes(lines, item, notes):
    new = ["  > %s\n" % " ".join(note.split()) for note in notes]
    first = item["note_lines"][0] - 1 if item["note_lines"] else item["last"]
    for number in reversed(item["note_lines"]):
        del lines[number - 1]
    end_last_line(lines)
    lines[first:first] = new


def add(lines, items, new):
    if new.get("category"):
        raise Unstorable("a category")
    if new.get("description"):
        raise Unstorable("a description")
    priority = new.get("priority")
    if priority is not None and not 0 <= priority <= NO_PRIORITY:
        raise Unstorable("the priority %d, only 0 (A) to 25 (Z)" % priority)
    words = ["(%s)" % chr(ord("A") + priority)] if priority not in (None, NO_PRIORITY) else []
    words += new["title"].split()
    taken, wanted = {item["id"] for item in items}, new.get("id") or slug(new["title"])
    number = 2
    while wanted in taken:
        wanted, number = "%s-%d" % (slug(new["title"]), number), number + 1
    words.append("id:" + wanted)
    if new.get("dependencies"):
        words.append("after:" + ",".join(new["dependencies"]))
    end_last_line(lines)
    lines.append(" ".join(words) + "\n")
    lines.extend("  - %s\n" % " ".join(criterion.split()) for criterion in new.get("criteria", []))


def end_last_line(lines):
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"


def read(text):
    items, defects = parse(split(text))
    return {"items": [] if defects else items, "defects": defects}


def edit(text, edits):
    lines = split(text)
    try:
        for one in edits:
            items, _ = parse(lines)
            item = next((item for item in items if item["id"] == one.get("id")), None)
            if one["edit"] == "add":
                add(lines, items, one["item"])
            elif one["edit"] == "set_status":
                set_status(lines, item, one["status"])
            else:
                set_notes(lines, item, one["notes"])
    except Unstorable as what:
        return {"not_storable": str(what)}
    return {"text": "".join(lines)}


def send(frame, **rest):
    sys.stdout.write(json.dumps({"frame": frame, **rest}) + "\n")
    sys.stdout.flush()


def open_instance(instance, config):
    if config:
        key = next(iter(config))
        send("refused", instance=instance, unknown_key=key, message="unknown field `%s`" % key)
        return
    statuses = ["pending", "completed"]
    description = {"order": "lowest", "statuses": statuses, "example": EXAMPLE}
    send("opened", instance=instance, backlog=description)


for line in sys.stdin:
    frame = json.loads(line)
    if frame["frame"] == "hello":
        items = [{"kind": "backlog", "name": "todo-txt", "summary": "lists in the form of todo.txt"}]
        send("hello", protocol=1, name="todo-txt", version="1.0", features=[], provides=items)
    elif frame["frame"] == "open":
        open_instance(frame["instance"], frame["config"])
    elif frame["frame"] == "call" and frame["method"] == "read_backlog":
        send("done", call=frame["call"], backlog=read(frame["text"]))
    elif frame["frame"] == "call":
        send("done", call=frame["call"], edited=edit(frame["text"], frame["edits"]))
    elif frame["frame"] == "close":
        break
