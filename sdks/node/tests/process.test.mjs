// A plugin as a process: what host and author may do wrong.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const PLUGIN = fileURLToPath(new URL("plugin.mjs", import.meta.url));
const CONTEXT = { config_dir: "/", workspace: "/tmp", prompt_dir: "/", path: "/usr/bin:/bin" };
const NAMES = { validator: "odd", agent: "endless" };

/** The host's side of a plugin's process. */
class Host {
  constructor(program = PLUGIN) {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    this.child = spawn(process.execPath, [program], { stdio: "pipe", env });
    this.child.stdin.on("error", () => {});
    this.said = "";
    this.child.stderr.on("data", (text) => { this.said += text; });
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.exited = once(this.child, "close");
    this.send({ frame: "hello", protocol: 1, host: "test", features: ["ping"], log: "info" });
  }

  send(frame) {
    this.child.stdin.write(`${JSON.stringify(frame)}\n`);
  }

  async receive() {
    const { value, done } = await this.lines.next();
    assert.ok(!done, this.said);
    return JSON.parse(value);
  }

  async open(kind = "validator") {
    this.send({ frame: "open", instance: 1, kind, name: NAMES[kind], config: {}, context: CONTEXT });
    return this.receive();
  }

  validate(text, call = 1) {
    const claim = { kind: "complete", detector: "d", source: "message", text };
    const context = { run: "r", iteration: 1, claim, workspace: "/tmp", tree_since: 1, env: {} };
    this.send({ frame: "call", call, instance: 1, method: "validate", context });
  }

  async answer(text) {
    await this.open();
    this.validate(text);
    return this.receive();
  }

  /** Closes standard input; returns what came on standard error. */
  async end() {
    this.child.stdin.end();
    assert.deepEqual(await this.lines.next(), { done: true, value: undefined });
    const [code] = await this.exited;
    assert.equal(code, 0, this.said);
    return this.said;
  }
}

function testHost(name, body) {
  test(name, { timeout: 60_000 }, async () => {
    const host = new Host();
    try {
      host.hello = await host.receive();
      await body(host);
    } finally {
      host.child.kill("SIGKILL");
      await host.exited;
    }
  });
}

testHost("hello names the items", async (host) => {
  assert.deepEqual(host.hello.provides.map(({ kind, name, summary }) => [kind, name, summary]),
    [["validator", "odd", "does what the claim says"], ["agent", "endless", "prints for ever"]]);
  assert.match(await host.end(), /printed before run\(\) is called/);
});

testHost("prints go to standard error", async (host) => {
  assert.equal((await host.answer("print")).verdict.summary, "5 characters");
  const said = await host.end();
  for (const text of ["printed\n", "written\n", "printed by a program\n"]) assert.ok(said.includes(text), said);
});

testHost("an exception is reported with its place", async (host) => {
  const { frame, message, location } = await host.answer("throw");
  assert.deepEqual([frame, message], ["panicked", "RangeError: bad value"]);
  assert.match(location, /^plugin\.mjs:\d+:\d+ in Odd\.validate$/);
  // The plugin goes on.
  host.validate("throw text", 2);
  const { call, message: text } = await host.receive();
  assert.deepEqual([call, text], [2, "threw 'text'"]);
  assert.match(await host.end(), /RangeError: bad value\n +at/);
});

testHost("an exception that belongs to no call fails those that work", async (host) => {
  assert.equal((await host.answer("throw elsewhere")).message, "RangeError: elsewhere");
  host.validate("x", 2);
  assert.equal((await host.receive()).frame, "done");
});

testHost("what is no verdict is named", async (host) => {
  assert.match((await host.answer("no verdict")).message, /returned null, expected accepted\(\)/);
});

testHost("a result that is too long fails the call", async (host) => {
  const answer = await host.answer("huge");
  assert.deepEqual([answer.frame, answer.class], ["failed", "crashed"]);
  assert.match(answer.message, /a frame at most 16777216/);
});

testHost("what is logged reaches the host", async (host) => {
  const { frame, level, message } = await host.answer("log");
  assert.deepEqual([frame, level, message], ["log", "warn", "warned of this"]);
  assert.equal((await host.receive()).frame, "done");
});

testHost("bad lines of the host are ignored", async (host) => {
  for (const line of ["not json", "", "[1]", "7", "null", "{}", '{"frame":7}', '{"frame":"new","x":1}', '{"frame":"open"}',
    '{"frame":"cancel"}', '{"frame":"cancel","call":9}', '{"frame":"credit"}', "[".repeat(100_000), "\xff"]) {
    host.child.stdin.write(`${line}\n`, "latin1");
  }
  host.send({ frame: "call", call: 7, instance: 9, method: "validate" });
  assert.equal((await host.receive()).message, "there is no instance 9");
  await host.open();
  host.send({ frame: "call", call: 8, instance: 1, method: "validate" });
  assert.equal((await host.receive()).class, "invalid_request");
  for (const method of ["new", "toString", "constructor"]) {
    host.send({ frame: "call", call: 9, instance: 1, method });
    assert.equal((await host.receive()).message, `it has no method \`${method}\``);
  }
  assert.equal((await host.answer("x")).frame, "done");
});

testHost("a line of 64 MiB is skipped", async (host) => {
  host.child.stdin.write(`{"frame":"ping","n":"${"x".repeat(64 * 1024 * 1024)}"}\n`);
  host.send({ frame: "ping", n: 2 });
  assert.deepEqual(await host.receive(), { frame: "pong", n: 2 });
  assert.match(await host.end(), /more than 16777216 bytes/);
});

testHost("the end of input in a frame ends the plugin", async (host) => {
  host.child.stdin.write('{"frame":"ping"');
  assert.match(await host.end(), /without its end/);
});

testHost("the end of input cancels calls", async (host) => {
  await host.open();
  host.validate("sleep");
  host.send({ frame: "ping", n: 1 });
  await host.receive();
  host.child.stdin.end();
  assert.equal((await host.receive()).class, "cancelled");
  assert.deepEqual(await host.exited, [0, null]);
});

testHost("a call that hangs does not keep the plugin", async (host) => {
  await host.open();
  host.validate("hang");
  assert.equal((await host.receive()).message, "hangs");
  host.send({ frame: "close" });
  assert.deepEqual(await host.exited, [0, null]);
});

testHost("a call that hangs is answered when it is cancelled", async (host) => {
  await host.open();
  host.validate("hang");
  assert.equal((await host.receive()).message, "hangs");
  host.send({ frame: "cancel", call: 1, reason: "timeout", grace_ms: 500 });
  const answer = await host.receive();
  assert.deepEqual([answer.class, answer.message], ["cancelled", "it did not end after cancellation"]);
});

testHost("a host that is gone ends the plugin", async (host) => {
  await host.open("agent");
  const task = { run: "r", number: 1, prompt: "p", workspace: "/tmp", env: {}, scratch: "/tmp" };
  host.send({ frame: "call", call: 1, instance: 1, method: "run", task });
  assert.deepEqual((await host.receive()).event, { type: "text", text: "more" });
  host.child.stdout.destroy();
  await host.exited;
});

testHost("SIGTERM ends the plugin and SIGINT does not", async (host) => {
  await host.open();
  host.validate("sleep");
  host.child.kill("SIGINT");
  host.send({ frame: "ping", n: 1 });
  assert.equal((await host.receive()).frame, "pong");
  host.child.kill("SIGTERM");
  assert.equal((await host.receive()).class, "cancelled");
  assert.deepEqual(await host.exited, [143, null]);
});
