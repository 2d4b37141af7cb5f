// Items of each kind, driven in-process.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { test } from "node:test";

import {
  Agent, BacklogFormat, Defects, Detector, Failed, InvalidItem, NotStorable, Refused, Validator, accepted, checkTable, claim,
  rejected, undecided,
} from "../src/index.mjs";
import { Panicked, Workspace } from "../src/testing.mjs";

function testIn(name, body) {
  test(name, { timeout: 60_000 }, async () => {
    const workspace = new Workspace();
    try {
      await body(workspace);
    } finally {
      await workspace.close();
    }
  });
}

class Judge extends Validator {
  static summary = "requires a file";
  static schema = {
    type: "object",
    properties: {
      file: { type: "string" },
      mode: { enum: ["fast", "slow"], default: "fast" },
      steps: { type: "array", default: [], items: { type: "object", required: ["run"], additionalProperties: false,
        properties: { run: { type: "string" }, weight: { type: "number", default: 1 } } } },
      limit: { type: ["integer", "null"] },
      env: { type: "object", additionalProperties: { type: "string" } },
    },
    required: ["file"],
    additionalProperties: false,
  };
  protects = ["tests/**"];
  runsCheck = false;

  setup() {
    if (isAbsolute(this.config.file)) throw new Refused("file", "expected a relative path");
    this.outsideFiles = ["/bin/sh"];
    this.demands = `${this.config.file} is there`;
  }

  check() {
    if (this.config.mode === "slow") throw new Failed("unavailable", "it is too slow");
    return "v1";
  }

  async findSetupProblems(setup) {
    if (await setup.isProtected("tests")) return [];
    return [{ message: "tests are not protected", key: "file", isFatal: true }];
  }

  async validate(call) {
    if (call.claim.text === "wait") await call.sleep(60_000);
    const [changed] = call.protectedChanges;
    if (changed) return undecided(`${changed.path} was ${changed.kind}`);
    if (call.readText(this.config.file) === null) return rejected(`${this.config.file} is missing: write it`);
    return accepted("it is there", [join(call.workspace, this.config.file)]);
  }
}

testIn("mistakes are refused at their key", async (workspace) => {
  for (const [table, key, unknown, message] of [
    [{}, [], null, "missing field `file`"],
    [{ file: 7 }, ["file"], null, "expected a string, found a number"],
    [{ file: "a", fiel: 1 }, [], "fiel", "unknown field `fiel`, expected one of `file`"],
    [{ file: "a", toString: 1 }, [], "toString", "unknown field `toString`"],
    [{ file: "a", mode: "x" }, ["mode"], null, "expected \"fast\" or \"slow\""],
    [{ file: "a", steps: [{ run: "x" }, {}] }, ["steps", "1"], null, "missing field `run`"],
    [{ file: "a", env: { A: 1 } }, ["env", "A"], null, "expected a string, found a number"],
    [{ file: "a", limit: true }, ["limit"], null, "expected an integer, found a boolean"],
    [{ file: "/a" }, ["file"], null, "expected a relative path"],
  ]) {
    await assert.rejects(workspace.open(Judge, table), (error) => {
      assert.deepEqual([error.key, error.unknown], [key, unknown], JSON.stringify(table));
      return error.message.includes(message);
    });
  }
  checkTable({ type: "new", pattern: "x", patternProperties: {}, additionalProperties: false }, { a: 1 });
});

testIn("defaults are filled in", async (workspace) => {
  let seen;
  class See extends Judge {
    setup() { seen = this.config; }
  }
  await workspace.open(See, { file: "a", steps: [{ run: "x" }] });
  assert.deepEqual(seen, { file: "a", mode: "fast", steps: [{ run: "x", weight: 1 }] });
});

testIn("without a schema a table has no keys", async (workspace) => {
  class Plain extends Validator {
    validate() { return accepted("yes"); }
  }
  await assert.rejects(workspace.open(Plain, { a: 1 }), /there are no fields/);
  assert.equal((await (await workspace.open(Plain)).validate()).verdict, "accepted");
});

testIn("a validator describes itself and decides", async (workspace) => {
  const item = await workspace.open(Judge, { file: "a" });
  assert.deepEqual(item.description.description, { kind: "judge", demands: "a is there" });
  assert.deepEqual([item.description.protects, item.description.outside_files], [["tests/**"], ["/bin/sh"]]);
  assert.deepEqual(await item.validate(), { verdict: "rejected", reasons: ["a is missing: write it"] });
  const path = workspace.write("a", "x");
  assert.deepEqual(await item.validate(), { verdict: "accepted", summary: "it is there", evidence: [{ path }] });
  const changes = { protected_changes: [{ path: "tests/a", kind: "removed" }] };
  assert.deepEqual(await item.validate("x", changes), { verdict: "error", message: "tests/a was removed" });
  assert.throws(() => rejected(), TypeError);
});

testIn("check and setup problems", async (workspace) => {
  const item = await workspace.open(Judge, { file: "a" });
  assert.equal(await item.check(), "v1");
  const slow = await workspace.open(Judge, { file: "a", mode: "slow" });
  await assert.rejects(slow.check(), { errorClass: "unavailable" });
  const problem = { message: "tests are not protected", key: ["file"], is_fatal: true };
  assert.deepEqual(await item.findSetupProblems(), [problem]);
  workspace.refusedWrites = ["tests"];
  assert.deepEqual(await item.findSetupProblems(), []);
});

testIn("a call that waits is cancelled", async (workspace) => {
  const call = (await workspace.open(Judge, { file: "a" })).startValidate("wait");
  await assert.rejects(call.cancel("timeout").result(), /it was cancelled: timeout/);
});

testIn("only regular files of the workspace are read", async (workspace) => {
  const item = await workspace.open(Judge, { file: "a" });
  const path = join(workspace.path, "a");
  for (const make of [() => execFileSync("mkfifo", [path]), () => symlinkSync("/etc/passwd", path), () => mkdirSync(path)]) {
    make();
    assert.equal((await item.validate()).verdict, "rejected");
    rmSync(path, { recursive: true });
  }
});

class Worker extends Agent {
  static summary = "does what the prompt says";
  capabilities = ["cost", "tokens"];
  model = "m";

  launch(task) {
    return { program: "/bin/sh", argv: ["-c", task.prompt] };
  }

  async run(task) {
    await task.session("s-1", "m");
    await task.usage({ cost: 0.5 });
    await task.usage({ tokens: { input: 3 } });
    const { prompt } = task;
    if (prompt === "fail") throw new Failed("rate_limited", "later", { untilMs: 7, report: { finalText: "no" } });
    if (prompt === "throw") return this.none.x;
    if (prompt === "all") await this.sendAll(task);
    else if (prompt === "many") for (let number = 0; number < 1000; number += 1) await task.text(String(number));
    else if (prompt === "nan") await task.usage({ cost: NaN });
    else if (prompt.startsWith("sh ")) {
      const onOutput = (text) => task.text(text);
      const { status, output } = await task.runProgram(["sh", "-c", prompt.slice(3)], { onOutput, input: "given" });
      return `${status} ${output}`;
    }
    return { finalText: "did it" };
  }

  async sendAll(task) {
    await task.text("x".repeat(1024 * 1024 + 1));
    await task.thinking("hm");
    const id = await task.toolCall("bash", { command: "true" });
    await task.toolResult(id, "out", { isError: true });
    await task.context(7, 9);
    await task.rateWindow("weekly", 0.5, 3);
    await task.claim("done");
    await task.note("later");
    await task.waiting("busy", 5);
    await task.stderr("line");
    await task.raw("{}");
    await task.warning("careful");
    await task.text("\ud800");
    // The host takes one request at a time.
    const [preview, first, second] =
      await Promise.all([task.preview("done"), task.isWriteRefused("a"), task.isWriteRefused(join(task.workspace, "b"))]);
    await task.text(`${preview.result} ${preview.reasons}`);
    await task.text(`${first} ${second}`);
    await task.text((await task.takeGuidance()).map(({ text }) => text).join());
    await task.text(`${(await task.takeGuidance()).length} left`);
    writeFileSync(join(task.scratch, "tools.json"), '{"command": ["ralph", "mcp"]}');
    await task.text(String(task.toolServerCommand()));
  }
}

testIn("an agent describes itself", async (workspace) => {
  const item = await workspace.open(Worker);
  assert.deepEqual(item.description.capabilities, { cost: true, tokens: true });
  assert.deepEqual([item.description.summary, item.description.model], ["does what the prompt says", "m"]);
  assert.equal(await item.check(), "does what the prompt says");
  const task = { run: "r", number: 1, prompt: "{prompt}", workspace: "/", env: {}, scratch: "{scratch}" };
  assert.deepEqual((await item.start("launch", { task }).result()).launch, { program: "/bin/sh", argv: ["-c", "{prompt}"] });
});

testIn("all events are sent in order", async (workspace) => {
  workspace.previews = [{ result: "rejected", reasons: ["no"] }];
  workspace.refusedWrites = ["a"];
  workspace.guidance = ["look"];
  const { report, events } = await (await workspace.open(Worker)).run("all");
  assert.deepEqual(events.map(({ type }) => type), ["session", "usage", "usage", "text", "text", "thinking", "tool_call",
    "tool_result", "context", "rate_window", "claim", "note", "waiting", "stderr", "raw", "warning", ...Array(6).fill("text")]);
  assert.deepEqual(events[2].usage, { cost: 0.5, tokens: { input: 3 } });
  assert.equal(events[7].id, events[6].id);
  assert.deepEqual(events.slice(-5).map(({ text }) => text), ["rejected no", "true false", "look", "0 left", "ralph,mcp"]);
  // What was sent is in the report.
  assert.deepEqual([report.final_text, report.session, report.usage.tokens.input], ["did it", "s-1", 3]);
});

testIn("an agent waits for credit", async (workspace) => {
  const { events } = await (await workspace.open(Worker)).run("many");
  assert.equal(events.length, 1003);
});

testIn("what is no report is named", async (workspace) => {
  for (const [returned, message] of [[5, /not 5/], [{ finaltext: "x" }, /it has "finaltext"/], [["x"], /not \["x"\]/]]) {
    class Odd extends Agent {
      run() { return returned; }
    }
    await assert.rejects((await workspace.open(Odd)).run("x"), message);
  }
});

testIn("a failure has a class and a report without final text", async (workspace) => {
  const call = (await workspace.open(Worker)).startRun("fail");
  await assert.rejects(call.result(), { errorClass: "rate_limited", untilMs: 7 });
  const report = await call.report();
  assert.deepEqual([report.final_text, report.session, report.usage.cost], [undefined, "s-1", 0.5]);
});

testIn("an exception is located", async (workspace) => {
  await assert.rejects((await workspace.open(Worker)).run("throw"), (error) => {
    assert.ok(error instanceof Panicked);
    assert.match(error.location, /^items\.test\.mjs:\d+:\d+ in Worker\.run$/);
    return true;
  });
});

testIn("what is no JSON or no UTF-8 fails the call", async (workspace) => {
  const item = await workspace.open(Worker);
  await assert.rejects(item.run("nan"), /NaN is no number of JSON/);
  await assert.rejects(item.run(Buffer.from([255])), { errorClass: "invalid_request" });
});

testIn("a program is run and ended", async (workspace) => {
  const item = await workspace.open(Worker);
  const { report, events } = await item.run("sh cat; echo; (sleep 1000; echo late) & exit 3");
  assert.equal(report.final_text, "3 given\n");
  assert.equal(events.map(({ text = "" }) => text).join(""), "given\n");
  // What left its group and holds the pipe is not waited for.
  assert.equal((await item.run("sh setsid sleep 5 & echo out")).report.final_text, "0 out\n");
  await assert.rejects(item.startRun("sh cat").cancel().result(), { errorClass: "cancelled" });
});

testIn("a program is ended when the call is cancelled", async (workspace) => {
  const call = (await workspace.open(Worker)).startRun("sh trap '' TERM; sleep 1000 & echo begun; wait; sleep 1000");
  await call.waitForEvent("text");
  await assert.rejects(call.cancel("idle").result(), /it was cancelled: idle/);
});

testIn("a program that cannot be run or is late", async (workspace) => {
  class Late extends Agent {
    async run(task) {
      return (await task.runProgram(task.prompt.split(" "), { timeoutMs: 100 })).output;
    }
  }
  const item = await workspace.open(Late);
  await assert.rejects(item.run("/none"), { errorClass: "unavailable" });
  await assert.rejects(item.run("sleep 1000"), { errorClass: "timed_out" });
});

class Marks extends Detector {
  static summary = "finds marks";
  instructions = "Write DONE.";

  inspect({ finalText, given }) {
    return finalText?.includes("DONE") && !given?.includes(finalText) ? [claim(finalText)] : [];
  }

  observe(event) {
    return event.type === "text" ? [claim(event.text, { kind: "needs_human", source: "tool" })] : [];
  }

  stripClaims(prompt) {
    return prompt.replaceAll("DONE", "");
  }
}

testIn("a detector finds claims", async (workspace) => {
  const item = await workspace.open(Marks);
  assert.deepEqual([item.description.observes, item.description.strips], [true, true]);
  assert.deepEqual(await item.inspect({ finalText: "DONE" }), [claim("DONE")]);
  assert.deepEqual(await item.inspect({ finalText: "DONE", given: "DONE" }), []);
  assert.deepEqual(await item.observe({ type: "text", text: "x" }), [claim("x", { kind: "needs_human", source: "tool" })]);
  assert.equal(await item.stripClaims("a DONE"), "a ");
  const plain = await workspace.open(class Plain extends Detector {});
  assert.deepEqual([plain.description.observes, plain.description.strips], [false, false]);
  assert.deepEqual(await plain.inspect(), []);
});

class Lines extends BacklogFormat {
  read(text) {
    if (text.startsWith("!")) throw new Defects({ message: "a bad line", line: 1, item: "x" });
    return text.split("\n").filter(Boolean).map((line, index) => ({ id: line, title: line, line: index + 1 }));
  }

  edit(text, edits) {
    for (const { edit, id, status, item } of edits) {
      if (edit === "set_notes") throw new NotStorable("notes");
      if (edit === "add" && !item.title) throw new InvalidItem("it has no title");
      text += edit === "add" ? `${item.title}\n` : `${id} ${status}\n`;
    }
    return text;
  }
}

testIn("a format reads and edits", async (workspace) => {
  const item = await workspace.open(Lines);
  assert.equal(item.description.order, "file");
  const { items } = await item.read("a\nb\n");
  assert.deepEqual(items[1], { id: "b", title: "b", status: "pending", location: { line: 2, column: 1 } });
  const defect = { message: "a bad line", item: "x", location: { line: 1, column: 1 } };
  assert.deepEqual((await item.read("!")).defects, [defect]);
  const edits = [{ edit: "add", item: { title: "c" } }, { edit: "set_status", id: "a", status: "completed" }];
  assert.deepEqual(await item.edit("a\n", edits), { text: "a\nc\na completed\n" });
  assert.deepEqual(await item.edit("", [{ edit: "set_notes", id: "a", notes: [] }]), { not_storable: "notes" });
  assert.deepEqual(await item.edit("", [{ edit: "add", item: { title: "" } }]), { invalid_item: "it has no title" });
});
