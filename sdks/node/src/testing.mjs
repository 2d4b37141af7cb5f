// Drives items in-process for a plugin's own tests, by the frames that the orchestrator would send.
//
//     const workspace = new Workspace();
//     workspace.write("notes.txt", "done");
//     const item = await workspace.open(Notes, { file: "notes.txt" });
//     assert.equal((await item.validate()).verdict, "accepted");
//     await workspace.close();
//
// `open` rejects with `Refused` for a mistake in the table, a call that fails with `Failed`, and one whose code threw
// anything else with `Panicked`.

import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve as resolvePath } from "node:path";

import { Failed, Refused, Session, nameOf } from "./index.mjs";

/** The author's code threw in a call. The location is as in `plugin.mjs:12:3 in Notes.validate`. */
export class Panicked extends Error {
  constructor(message, location) {
    super(`${message} (at ${location})`);
    Object.assign(this, { name: "Panicked", panic: message, location });
  }
}

/**
 * A folder of its own, which is deleted by `close`, and the host of items that work in it. `previews` are the answers to
 * `Task.preview`, `refusedWrites` paths that must not be written, and `guidance` what people sent.
 */
export class Workspace {
  previews = [];
  refusedWrites = [];
  guidance = [];
  #hosts = [];

  constructor() {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), "ralph-plugin-test-")));
    this.scratch = realpathSync(mkdtempSync(join(tmpdir(), "ralph-plugin-scratch-")));
  }

  /** Ends all sessions and deletes the folder. */
  async close() {
    await Promise.all(this.#hosts.map((host) => host.session.end()));
    for (const folder of [this.path, this.scratch]) rmSync(folder, { recursive: true, force: true });
  }

  /** Writes a file, with the folders above it, and returns its path. */
  write(name, content) {
    const path = join(this.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  /** Builds an item from its table, as a session of its own would. */
  async open(item, config = {}) {
    const host = new Host(this, item);
    this.#hosts.push(host);
    const context = { config_dir: this.path, workspace: this.path, prompt_dir: this.path, path: process.env.PATH };
    const answer = new Promise((resolve) => { host.whenOpened = resolve; });
    host.send({ frame: "open", instance: 1, kind: item.kind, name: null, config, context });
    const opened = await answer;
    if (opened.frame === "refused") throw new Refused(opened.key, opened.message, opened.unknown_key);
    return new TestedItem(host, opened[item.kind]);
  }
}

/** The host's side of a session in-process. */
class Host {
  calls = new Map();
  logs = [];

  constructor(workspace, item) {
    this.workspace = workspace;
    this.session = new Session(nameOf(item), "0", [item], (line) => this.#receive(JSON.parse(line)));
    const features = ["credit", "ping", "write_check", "cancel_reasons", "setup_problems", "launch", "guidance"];
    this.send({ frame: "hello", protocol: 1, host: "testing", window: 8, log: "trace", features });
  }

  send(frame) {
    this.session.handleLine(JSON.stringify(frame));
  }

  #receive(frame) {
    const call = this.calls.get(frame.call);
    const { call: number, request } = frame;
    // Later, as frames of another process come.
    const answer = (answered) => setImmediate(() => this.send({ call: number, request, ...answered }));
    switch (frame.frame) {
      case "opened": case "refused": return this.whenOpened(frame);
      case "log": return this.logs.push(frame);
      case "event":
        call._add(frame.event);
        return answer({ frame: "credit", events: 1 });
      case "done": case "failed": case "panicked": return call._end(frame);
      case "preview": {
        return answer({ frame: "preview_result", ...(this.workspace.previews.shift() ?? { result: "no_claim" }) });
      }
      case "write_check": {
        const path = relative(this.workspace.path, resolvePath(this.workspace.path, frame.path));
        return answer({ frame: "write_check_result", refused: this.workspace.refusedWrites.includes(path) });
      }
      case "take_guidance": {
        const guidance = this.workspace.guidance.splice(0).map((text, index) => ({ id: String(index + 1), text }));
        return answer({ frame: "guidance_result", guidance });
      }
    }
  }
}

/** A call that may still work. */
export class RunningCall {
  events = [];
  #host;
  #number;
  #waiters = [];
  #end;

  constructor(host, number) {
    this.#host = host;
    this.#number = number;
    this.answer = new Promise((resolve) => { this.#end = resolve; });
  }

  /** @internal */
  _add(event) {
    this.events.push(event);
    this.#waiters.splice(0).forEach((resume) => resume());
  }

  /** @internal */
  _end(frame) {
    this.#end(frame);
  }

  /** Waits for an event of this type and returns it. */
  async waitForEvent(type) {
    for (;;) {
      const found = this.events.find((event) => event.type === type);
      if (found) return found;
      await new Promise((resolve) => this.#waiters.push(resolve));
    }
  }

  /** Cancels the call. */
  cancel(reason = "signal", graceMs = 5000) {
    this.#host.send({ frame: "cancel", call: this.#number, reason, grace_ms: graceMs });
    return this;
  }

  /** Waits for the answer and returns its keys. */
  async result() {
    const answer = await this.answer;
    if (answer.frame === "failed") throw new Failed(answer.class, answer.message, { untilMs: answer.until_ms });
    if (answer.frame === "panicked") throw new Panicked(answer.message, answer.location);
    return answer;
  }

  /** Waits for the end of a `run` and returns its report, even if the run failed. */
  async report() {
    return (await this.answer).report ?? {};
  }
}

/** An item that was built. */
export class TestedItem {
  #host;

  constructor(host, description) {
    this.#host = host;
    /** What it says of itself, as the orchestrator is told. */
    this.description = description;
    /** What it has logged. */
    this.logs = host.logs;
  }

  /** Starts a call of any method. */
  start(method, parameters) {
    const number = this.#host.calls.size + 1;
    const call = new RunningCall(this.#host, number);
    this.#host.calls.set(number, call);
    this.#host.send({ frame: "call", call: number, instance: 1, method, ...parameters });
    return call;
  }

  get #env() {
    return { PATH: process.env.PATH ?? "/usr/bin:/bin" };
  }

  /** Calls `check` of an agent or validator. */
  async check() {
    return (await this.start("check", { env: this.#env }).result()).found;
  }

  /** Starts an iteration of an agent. */
  startRun(prompt = "Do it.") {
    const { path: workspace, scratch } = this.#host.workspace;
    const given = typeof prompt === "string" ? { prompt } : { prompt_base64: Buffer.from(prompt).toString("base64") };
    return this.start("run", { task: { run: "run", number: 1, workspace, env: this.#env, budget: {}, scratch, ...given } });
  }

  /** Runs an iteration of an agent; returns its report and its events. */
  async run(prompt) {
    const call = this.startRun(prompt);
    const { report } = await call.result();
    return { report, events: call.events };
  }

  /** Starts a validation of a claim. Keys of the context replace those of a first iteration. */
  startValidate(text = "The task is complete.", context = {}) {
    const claim = { kind: "complete", detector: "promise", source: "message", text };
    const whole = { run: "run", iteration: 1, claim, workspace: this.#host.workspace.path, tree_since: 1, written_in: {},
      evidence_listed: true, protected_changes: [], env: this.#env, ...context };
    return this.start("validate", { context: whole });
  }

  /** Has a validator decide about a claim. */
  async validate(text, context) {
    return (await this.startValidate(text, context).result()).verdict;
  }

  /** Asks a validator what the user should know before a run. */
  async findSetupProblems() {
    const workspace = this.#host.workspace.path;
    return (await this.start("find_setup_problems", { workspace, env: this.#env }).result()).setup_problems;
  }

  /** Has a detector find claims. */
  async inspect({ finalText = null, given = null, prompt = null } = {}) {
    const input = { workspace: this.#host.workspace.path, prompt_path: null, prompt, final_text: finalText, given };
    return (await this.start("inspect", { input }).result()).findings.claims;
  }

  /** Gives a detector an event. */
  async observe(event) {
    return (await this.start("observe", { event }).result()).claims;
  }

  /** Has a detector remove claims from a prompt. */
  async stripClaims(prompt) {
    return (await this.start("strip_claims", { prompt }).result()).text;
  }

  /** Has a format of backlogs read a text; returns `items` or `defects`. */
  async read(text) {
    return (await this.start("read_backlog", { text }).result()).backlog;
  }

  /** Has a format of backlogs edit a text; returns `text`, `not_storable` or `invalid_item`. */
  async edit(text, edits) {
    return (await this.start("edit_backlog", { text, edits }).result()).edited;
  }
}
