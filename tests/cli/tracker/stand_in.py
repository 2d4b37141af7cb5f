#!/usr/bin/env python3
"""A stand-in for gh (2.23 and later) and glab (1.53 and later): the flags and JSON fields that these have, and no others.

Its data are in the file $HOST_DATA: `labels`, `issues`, `pulls`, `calls` (the command lines so far), `fail` (a message and how often
it is printed, by command), `hold` (a command after whose effect it waits until it is killed). $HOST_HELD is created then.
"""

import fcntl
import json
import os
import signal
import sys

FLAGS = {
    "gh": {
        "repo view": {"json": "fields"},
        "issue list": {"state": "value", "label": "list", "limit": "value", "json": "fields"},
        "issue view": {"json": "fields", "comments": "switch"},
        "issue edit": {"add-label": "list", "remove-label": "list"},
        "issue comment": {"body": "value", "body-file": "value"},
        "label create": {"color": "value", "description": "value", "force": "switch"},
        "pr list": {"head": "value", "state": "value", "json": "fields", "limit": "value"},
        "pr create": {"draft": "switch", "title": "value", "body-file": "value", "head": "value", "base": "value"},
        "pr edit": {"title": "value", "body-file": "value"},
    },
    "glab": {
        "repo view": {"output": "value"},
        "issue list": {"label": "list", "output": "value", "per-page": "value", "page": "value"},
        "issue view": {"comments": "switch", "output": "value", "per-page": "value", "page": "value"},
        "issue update": {"label": "list", "unlabel": "list"},
        "issue note": {"message": "value"},
        "label create": {"name": "value", "color": "value", "description": "value"},
        "mr list": {"source-branch": "value", "all": "switch", "output": "value", "per-page": "value"},
        "mr create": {"draft": "switch", "title": "value", "description": "value", "source-branch": "value",
                      "target-branch": "value", "yes": "switch"},
        "mr update": {"title": "value", "description": "value"},
    },
}
ISSUE_FIELDS = {"number", "title", "body", "labels", "url", "updatedAt", "comments"}
PULL_FIELDS = {"number", "url", "title", "body", "state", "isDraft", "headRefName", "baseRefName"}


def fail(message, status=1):
    print(message, file=sys.stderr)
    sys.exit(status)


def parse(program, words):
    if len(words) < 2 or " ".join(words[:2]) not in FLAGS[program]:
        fail(f"unknown command {words[:2]} for {program!r}")
    command, rest = " ".join(words[:2]), words[2:]
    known = {**FLAGS[program][command], "repo": "value"}
    flags, places = {}, []
    while rest:
        word = rest.pop(0)
        if word == "--":
            places.extend(rest)
            break
        if not word.startswith("-"):
            places.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        kind = known.get(name)
        if kind is None or not word.startswith("--"):
            fail(f"unknown flag: {word}")
        if kind == "switch":
            flags[name] = True
            continue
        if not equals:
            if not rest:
                fail(f"flag needs an argument: {word}")
            value = rest.pop(0)
        if kind == "list":
            flags.setdefault(name, []).extend(value.split(","))
        else:
            flags[name] = value
    return command, flags, places


def only_fields(record, flags, known):
    fields = flags["json"].split(",")
    if unknown := set(fields) - known:
        fail(f"Unknown JSON field: {sorted(unknown)}")
    return {field: record[field] for field in fields}


class Host:
    def __init__(self, program, data, flags, places):
        self.program, self.data, self.flags, self.places = program, data, flags, places

    def issue(self):
        for issue in self.data["issues"]:
            if [str(issue["number"])] == self.places:
                return issue
        fail(f"HTTP 404: no issue {self.places}")

    def text(self, file_flag, text_flag):
        if file_flag in self.flags:
            if self.flags[file_flag] != "-":
                fail("open: no such file")
            return sys.stdin.read()
        return self.flags[text_flag]

    def change_labels(self, add, remove):
        issue = self.issue()
        for label in add + remove:
            if label not in self.data["labels"]:
                fail(f"'{label}' not found")
        kept = [label for label in issue["labels"] if label not in remove]
        issue["labels"] = kept + [label for label in add if label not in kept]

    def create_label(self, name):
        if name in self.data["labels"] and "force" not in self.flags:
            fail(f"label with name {name!r} already exists")
        self.data["labels"].append(name)

    def page(self, found):
        size = int(self.flags.get("per-page", 30))
        if not 1 <= size <= 100:
            fail("400 per_page does not have a valid value")
        start = (int(self.flags.get("page", 1)) - 1) * size
        return found[start:start + size]

    def listed(self):
        wanted = self.flags.get("label", [])
        found = [i for i in self.data["issues"] if i["state"] == "open" and all(w in i["labels"] for w in wanted)]
        return sorted(found, key=lambda issue: -issue["number"])

    def repo_view(self):
        # Both ask git in the folder where they run.
        url = os.popen("git config --get remote.origin.url").read().strip()
        if not url:
            fail("no git remotes found")
        return {"url": url} if self.program == "gh" else {"web_url": url}

    def run(self, command):
        flags = self.flags
        match self.program, command:
            case _, "repo view":
                return self.repo_view()
            case "gh", "issue list":
                found = self.listed()[:int(flags.get("limit", 30))]
                as_json = [{**i, "labels": [{"name": l} for l in i["labels"]], "url": "", "updatedAt": ""} for i in found]
                return [only_fields(issue, flags, ISSUE_FIELDS) for issue in as_json]
            case "glab", "issue list":
                return [{"iid": i["number"], "title": i["title"], "description": i["body"], "labels": i["labels"]}
                        for i in self.page(self.listed())]
            case "gh", "issue view":
                comments = [{"body": c["body"], "viewerDidAuthor": c.get("own", True)} for c in self.issue()["comments"]]
                return only_fields({"comments": comments}, flags, ISSUE_FIELDS)
            case "glab", "issue view":
                notes = [{"body": c["body"]} for c in reversed(self.issue()["comments"])]
                return {"iid": self.issue()["number"], "Notes": self.page(notes)}
            case "gh", "issue edit":
                self.change_labels(flags.get("add-label", []), flags.get("remove-label", []))
            case "glab", "issue update":
                self.change_labels(flags.get("label", []), flags.get("unlabel", []))
            case "gh", "issue comment":
                self.issue()["comments"].append({"body": self.text("body-file", "body")})
            case "glab", "issue note":
                self.issue()["comments"].append({"body": flags["message"]})
            case "gh", "label create":
                self.create_label(*self.places)
            case "glab", "label create":
                self.create_label(flags["name"])
            case "gh", "pr list":
                found = [p for p in self.data["pulls"] if p["headRefName"] == flags["head"]
                         and flags.get("state", "open") in ("all", p["state"].lower())]
                return [only_fields(pull, flags, PULL_FIELDS) for pull in found]
            case "glab", "mr list":
                found = [p for p in self.data["pulls"] if p["headRefName"] == flags["source-branch"]
                         and ("all" in flags or p["state"] == "OPEN")]
                return [{"iid": p["number"], "web_url": p["url"], "title": p["title"], "description": p["body"],
                         "state": "opened" if p["state"] == "OPEN" else p["state"].lower()} for p in self.page(found)]
            case "gh", "pr create":
                return self.create_pull(flags["head"], flags.get("base", "main"), self.text("body-file", "body"))
            case "glab", "mr create":
                return self.create_pull(flags["source-branch"], flags.get("target-branch", "main"), flags["description"])
            case "gh", "pr edit":
                self.edit_pull(self.text("body-file", "body"))
            case "glab", "mr update":
                self.edit_pull(flags["description"])
        return None

    def pull(self):
        for pull in self.data["pulls"]:
            if [str(pull["number"])] == self.places:
                return pull
        fail(f"HTTP 404: no pull request {self.places}")

    def edit_pull(self, body):
        pull = self.pull()
        pull["body"], pull["title"] = body, self.flags.get("title", pull["title"])

    def create_pull(self, head, base, body):
        if any(p["headRefName"] == head and p["state"] == "OPEN" for p in self.data["pulls"]):
            fail(f"a pull request for branch {head!r} already exists")
        number = 100 + len(self.data["pulls"])
        url = f"https://example.org/pull/{number}"
        self.data["pulls"].append({"number": number, "url": url, "title": self.flags["title"], "body": body, "state": "OPEN",
                                   "isDraft": "draft" in self.flags, "headRefName": head, "baseRefName": base})
        return url


def main():
    program = os.path.basename(sys.argv[0])
    with open(os.environ["HOST_DATA"], "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data = json.load(file)
        data["calls"].append([program, *sys.argv[1:]])

        def save():
            file.seek(0)
            file.truncate()
            json.dump(data, file)
            file.flush()

        save()
        command, flags, places = parse(program, sys.argv[1:])
        failure = data["fail"].get(command)
        if failure and failure["times"] > 0:
            failure["times"] -= 1
            save()
            fail(failure["message"], failure.get("status", 1))
        if command != "repo view" and "repo" not in flags:
            fail("fatal: not a git repository")
        printed = Host(program, data, flags, places).run(command)
        held = data["hold"] == command
        if held:
            data["hold"] = None
        save()
    if held:
        open(os.environ["HOST_HELD"], "w").close()
        while True:
            signal.pause()
    if printed is not None:
        print(printed if isinstance(printed, str) else json.dumps(printed))


main()
