// Write plugins for ralph-orchestrator: agents, detectors, validators and formats of backlogs.
//
// A plugin extends `Agent`, `Detector`, `Validator` or `BacklogFormat` and ends with `run(TheClass)`. `static schema` is
// the JSON Schema of its table in ralph.toml; without one it has no keys. Methods may be asynchronous, and should be where
// they wait: only then are other calls and cancellation handled meanwhile. What is printed goes to standard error. An
// exception fails its call, not the plugin.
//
// This file is the whole package but for `testing.mjs` and the types: it needs Node.js 18 and nothing else.

import { spawn } from "node:child_process";
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";

export const version = "0.1.0";

const PROTOCOL = 1;
export const MAX_FRAME = 16 * 1024 * 1024;
const FEATURES = ["credit", "ping", "write_check", "cancel_reasons", "setup_problems", "launch", "guidance"];
/** The longest text of one event, in UTF-16 units: even if each takes six bytes, it fits into a frame. */
const MAX_TEXT = 1024 * 1024;
/** How long calls may take to end after the session has ended, in milliseconds. */
const CLOSE_GRACE = 2000;

const HERE = fileURLToPath(import.meta.url);
const writeFrames = process.stdout.write.bind(process.stdout);

/** Sends what is printed to standard error: nothing but frames may go to standard output. */
function protectStdout() {
  process.stdout.write = /** @type {any} */ (process.stderr.write.bind(process.stderr));
}

function isPipe(descriptor) {
  try {
    const found = fstatSync(descriptor);
    return found.isFIFO() || found.isSocket();
  } catch {
    return false;
  }
}

// As the host starts a plugin: what its modules print before `run` is no frame. A test reports by standard output.
if (isPipe(0) && isPipe(1) && !process.env.NODE_TEST_CONTEXT) protectStdout();

// What authors throw.

/** A mistake in the table: the key, or its path, and what was expected. `unknown` is a key that does not exist. */
export class Refused extends Error {
  constructor(key, message, unknown = null) {
    super(message);
    this.name = "Refused";
    this.key = typeof key === "string" ? (key === "" ? [] : [key]) : [...key];
    this.unknown = unknown;
  }
}

/** Fails a call with a class, which decides what the host does. */
export class Failed extends Error {
  constructor(errorClass, message, { untilMs, report } = {}) {
    super(message);
    this.name = "Failed";
    Object.assign(this, { errorClass, untilMs, report });
  }
}

/** Ends a call that was cancelled. */
export class Cancelled extends Failed {
  constructor(reason = "signal") {
    super("cancelled", `it was cancelled: ${reason}`);
    this.name = "Cancelled";
    this.reason = reason;
  }
}

/** A text that is not valid. */
export class Defects extends Error {
  constructor(...defects) {
    super(defects.map((defect) => defect.message).join("; "));
    this.defects = defects;
  }
}

/** What a format has no place for, such as "a priority". */
export class NotStorable extends Error {}

/** What is wrong with an item to be added, and what to do. */
export class InvalidItem extends Error {}

// What authors return.

/** Returns the verdict that a claim is accepted. */
export function accepted(summary, evidence = []) {
  const files = evidence.map((one) => (typeof one === "string" ? { path: one } : one));
  return { verdict: "accepted", summary, evidence: files };
}

/** Returns the verdict that a claim is rejected. The agent reads the reasons: what is missing, and what to do. */
export function rejected(...reasons) {
  if (reasons.length === 0 || reasons.some((reason) => String(reason).trim() === "")) {
    throw new TypeError("rejected() needs a reason: the agent reads what is missing and what to do");
  }
  return { verdict: "rejected", reasons };
}

/** Returns the verdict `error`: the validator could not decide. People read the message. */
export function undecided(message) {
  return { verdict: "error", message };
}

/** Returns a claim. */
export function claim(text, { kind = "complete", source = "message" } = {}) {
  return { kind, source, text, detector: "" };
}

/** Sends log messages to the host, which shows warnings and errors as warnings of the run. */
export const log = {
  error: (message) => writeLog("error", message),
  warn: (message) => writeLog("warn", message),
  info: (message) => writeLog("info", message),
  debug: (message) => writeLog("debug", message),
};

/** The session of this process, once there is one. */
let current = null;

function writeLog(level, message) {
  if (current) current.log(level, String(message));
  else console.error(message);
}

// Tables of the configuration.

const TYPES = {
  string: ["a string", (value) => typeof value === "string"],
  integer: ["an integer", (value) => Number.isInteger(value)],
  number: ["a number", (value) => typeof value === "number"],
  boolean: ["a boolean", (value) => typeof value === "boolean"],
  array: ["an array", Array.isArray],
  object: ["a table", isTable],
  null: ["nothing", (value) => value === null],
};

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key);

/**
 * Throws `Refused` for the first value that its JSON Schema does not allow, as the host does. It follows `type`, `enum`,
 * `const`, `properties`, `required`, `additionalProperties` and `items`.
 */
export function checkTable(schema, value, path = []) {
  if (!isTable(schema)) return;
  if (schema.type !== undefined) {
    const types = [schema.type].flat();
    if (!types.some((type) => !TYPES[type] || TYPES[type][1](value))) {
      const order = ["boolean", "string", "number", "array", "null"];
      const found = TYPES[order.find((type) => TYPES[type][1](value)) ?? "object"][0];
      const names = types.filter((type) => type !== "null").map((type) => TYPES[type][0]);
      throw new Refused(path, `expected ${names.join(" or ")}, found ${found}`);
    }
  }
  const allowed = has(schema, "const") ? [schema.const] : schema.enum;
  if (allowed && !allowed.includes(value)) {
    throw new Refused(path, `expected ${allowed.map((one) => JSON.stringify(one)).join(" or ")}`);
  }
  if (Array.isArray(value) && schema.items) {
    value.forEach((element, index) => checkTable(schema.items, element, [...path, String(index)]));
  }
  if (isTable(value)) checkKeys(schema, value, path);
}

function checkKeys(schema, table, path) {
  const known = schema.properties ?? {};
  const others = schema.patternProperties ? {} : (schema.additionalProperties ?? {});
  for (const [key, value] of Object.entries(table)) {
    const ofKey = has(known, key) ? known[key] : others;
    if (ofKey === false) {
      const names = Object.keys(known).map((name) => `\`${name}\``).join(", ");
      const expected = names ? `expected one of ${names}` : "there are no fields";
      throw new Refused(path, `unknown field \`${key}\`, ${expected}`, key);
    }
    checkTable(ofKey, value, [...path, key]);
  }
  for (const key of schema.required ?? []) {
    if (!has(table, key)) throw new Refused(path, `missing field \`${key}\``);
  }
}

/** Returns a value with the defaults of its schema where keys are missing. */
function withDefaults(schema, value) {
  if (!isTable(schema)) return value;
  if (Array.isArray(value)) return value.map((element) => withDefaults(schema.items, element));
  if (!isTable(value)) return value;
  const filled = { ...value };
  for (const [key, ofKey] of Object.entries(schema.properties ?? {})) {
    if (has(value, key)) filled[key] = withDefaults(ofKey, value[key]);
    else if (isTable(ofKey) && has(ofKey, "default")) filled[key] = structuredClone(ofKey.default);
  }
  return filled;
}

// Calls.

/** One call of the host. It can be cancelled while it works. */
export class Call {
  #session;
  #abort = new AbortController();
  #isAnswered = false;
  #credit = null;
  #creditWaiters = [];
  #requests = new Map();
  #lastRequest = 0;
  #requesting = Promise.resolve();
  #callNumber;

  constructor(session, number, workspace, env) {
    this.#session = session;
    this.#callNumber = number;
    this.#credit = session.window;
    this.workspace = workspace;
    this.env = env;
  }

  /** Aborted when the call has to end. */
  get signal() {
    return this.#abort.signal;
  }

  /** Whether the call has to end. */
  get cancelled() {
    return this.signal.aborted;
  }

  /** Why it has to end, such as `timeout` or `handoff`. */
  get cancelReason() {
    return this.cancelled ? this.signal.reason.reason : null;
  }

  /** Throws `Cancelled` if the call has to end. Call it in loops. */
  throwIfCancelled() {
    this.signal.throwIfAborted();
  }

  /** Waits; throws `Cancelled` as soon as the call has to end. */
  async sleep(milliseconds) {
    this.throwIfCancelled();
    await new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      this.signal.addEventListener("abort", end);
    });
    this.throwIfCancelled();
  }

  /**
   * Reads the beginning of a regular file in the workspace; null if there is none that can be read. What the agent may
   * have put in its place does no harm: a link that leads out of the workspace, a pipe.
   */
  readText(path, maxBytes = 1024 * 1024) {
    let descriptor;
    try {
      const root = realpathSync(this.workspace);
      const real = realpathSync(isAbsolute(path) ? path : join(root, path));
      const inside = relative(root, real);
      if (inside === ".." || inside.startsWith(`..${sep}`) || isAbsolute(inside)) return null;
      descriptor = openSync(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
      const found = fstatSync(descriptor);
      if (!found.isFile()) return null;
      const bytes = Buffer.alloc(Math.min(maxBytes, Math.max(found.size, 65536)));
      let length = 0;
      for (let read = 1; read > 0 && length < bytes.length; length += read) {
        read = readSync(descriptor, bytes, length, bytes.length - length, null);
      }
      return bytes.toString("utf8", 0, length);
    } catch {
      return null;
    } finally {
      if (descriptor !== undefined) closeSync(descriptor);
    }
  }

  /**
   * Runs a program in the workspace with the environment of the call, and ends all that it has started. `onOutput` gets
   * pieces of what it prints as they come; the result has the last `maxOutput` bytes.
   */
  async runProgram(argv, options = {}) {
    this.throwIfCancelled();
    const program = new Program(argv, { cwd: this.workspace, env: this.env, ...options });
    const terminate = () => program.terminate();
    this.signal.addEventListener("abort", terminate, { once: true });
    const { timeoutMs } = options;
    let isLate = false;
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => { isLate = true; program.terminate(); }, timeoutMs);
    try {
      const result = await program.wait();
      this.throwIfCancelled();
      if (isLate) throw new Failed("timed_out", `${argv[0]} did not end within ${timeoutMs} ms`);
      return result;
    } finally {
      program.kill();
      clearTimeout(timer);
      this.signal.removeEventListener("abort", terminate);
    }
  }

  /** @internal Sends a frame of this call, unless it was answered. */
  _send(frame) {
    const line = encode({ ...frame, call: this.#callNumber });
    if (this.#isAnswered) throw new Cancelled(this.cancelReason ?? "signal");
    return this.#session.write(line);
  }

  /** @internal Answers the call, unless that was done. */
  _answer(frame) {
    const line = encode({ ...frame, call: this.#callNumber });
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    this.#creditWaiters.splice(0).forEach((resume) => resume());
    for (const { reject } of this.#requests.values()) reject(new Cancelled(this.cancelReason ?? "signal"));
    this.#requests.clear();
    this.#session.write(line);
  }

  /** @internal Waits until an event may be sent. */
  async _takeCredit() {
    while (this.#credit !== null && this.#credit <= 0 && !this.#isAnswered) {
      await new Promise((resolve) => this.#creditWaiters.push(resolve));
    }
    if (this.#credit !== null) this.#credit -= 1;
  }

  /** @internal Sends a request and returns its answer. The host takes one at a time. */
  _request(frame) {
    const asked = this.#requesting.then(() => new Promise((resolve, reject) => {
      const request = ++this.#lastRequest;
      this.#requests.set(request, { resolve, reject });
      Promise.resolve(this._send({ ...frame, request })).catch(reject);
    }));
    this.#requesting = asked.catch(() => {});
    return asked;
  }

  /** @internal Whether the host answers a request. */
  _hostHas(feature) {
    return this.#session.hostFeatures.has(feature);
  }

  /** @internal Takes a frame of the host that belongs to this call. */
  _take(frame) {
    if (frame.frame === "credit") {
      if (this.#credit !== null) this.#credit += frame.events;
      this.#creditWaiters.splice(0).forEach((resume) => resume());
      return;
    }
    const request = this.#requests.get(frame.request);
    this.#requests.delete(frame.request);
    request?.resolve(frame);
  }

  /** @internal Cancels the call. */
  _cancel(reason) {
    if (!this.cancelled) this.#abort.abort(new Cancelled(reason));
  }
}

/** A program in a process group of its own. Its group is killed as soon as its first process has ended. */
class Program {
  constructor(argv, { input = "", cwd, env, mergeStderr = false, onOutput, maxOutput = 1024 * 1024 }) {
    Object.assign(this, { argv, onOutput, maxOutput });
    const stdio = [input.length > 0 ? "pipe" : "ignore", "pipe", mergeStderr ? "pipe" : 2];
    this.child = spawn(argv[0], argv.slice(1), { cwd, env, stdio, detached: true });
    this.exited = new Promise((resolve, reject) => {
      this.child.on("error", (error) => {
        reject(new Failed("unavailable", `${argv[0]} cannot be run: ${error.message}`));
      });
      this.child.on("exit", (code, signal) => {
        this.kill();
        resolve({ status: code, signal });
      });
    });
    // It is awaited later.
    this.exited.catch(() => {});
    this.child.stdin?.on("error", () => { /* It does not want to read it. */ });
    this.child.stdin?.end(input);
  }

  kill(signal = "SIGKILL") {
    try {
      if (this.child.pid !== undefined) process.kill(-this.child.pid, signal);
    } catch { /* It has ended. */ }
  }

  /** Sends SIGTERM, and SIGKILL a second later. */
  terminate() {
    this.kill("SIGTERM");
    const killer = setTimeout(() => this.kill(), 1000);
    this.exited.catch(() => {}).finally(() => clearTimeout(killer));
  }

  async wait() {
    const streams = [this.child.stdout, this.child.stderr].filter(Boolean);
    const output = new Output(this.maxOutput, this.onOutput);
    await Promise.all(streams.map((stream) => this.#read(stream, output)));
    const ended = await this.exited;
    return { ...ended, output: output.text() };
  }

  /** Reads until nobody can write, or the first process has ended and nothing comes any more. */
  async #read(stream, output) {
    const pieces = stream[Symbol.asyncIterator]();
    const isOver = this.exited.then(() => new Promise((resolve) => { setTimeout(resolve, 300, { done: true }).unref(); }));
    isOver.catch(() => {});
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await Promise.race([pieces.next(), isOver]);
      if (done) break;
      await output.add(value, decoder);
    }
    stream.destroy();
  }
}

/** The end of what a program prints. */
class Output {
  #pieces = [];
  #length = 0;

  constructor(maxOutput, onOutput) {
    Object.assign(this, { maxOutput, onOutput });
  }

  async add(piece, decoder) {
    this.#pieces.push(piece);
    this.#length += piece.length;
    while (this.#pieces.length > 0 && this.#length - this.#pieces[0].length >= this.maxOutput) {
      this.#length -= this.#pieces.shift().length;
    }
    const text = this.onOutput && decoder.decode(piece, { stream: true });
    if (text) await this.onOutput(text);
  }

  text() {
    const whole = Buffer.concat(this.#pieces);
    return whole.subarray(Math.max(0, whole.length - this.maxOutput)).toString("utf8");
  }
}

/** An iteration that an agent performs. Its methods send events, in the order in which things happen. */
export class Task extends Call {
  #sessionId = null;
  #usage = null;
  #calls = 0;

  constructor(session, call, { task }) {
    super(session, call, task.workspace, task.env);
    this.run = task.run;
    this.number = task.number;
    this.scratch = task.scratch;
    this.promptBytes = typeof task.prompt === "string" ? Buffer.from(task.prompt) : Buffer.from(task.prompt_base64, "base64");
    const { cost = null, tokens = null, time = null } = task.budget ?? {};
    this.budget = { cost, tokens, seconds: time && time.secs + (time.nanos ?? 0) / 1e9 };
  }

  /** The prompt. Fails the call with `invalid_request` if it is no UTF-8; `promptBytes` has any. */
  get prompt() {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.promptBytes);
    } catch {
      throw new Failed("invalid_request", "the prompt is not UTF-8");
    }
  }

  /** Sends any event. Waits while the host is busy. */
  async event(type, keys = {}) {
    await this._takeCredit();
    await this._send({ frame: "event", event: { type, ...keys } });
  }

  /** Names the agent's session: first, and once. */
  session(id, model = null) {
    this.#sessionId = id;
    return this.event("session", { id, model });
  }

  /** Sends a piece of the agent's own text. */
  async text(text) {
    for (const piece of pieces(text)) await this.event("text", { text: piece });
  }

  /** Sends a piece of the agent's reasoning. */
  async thinking(text) {
    for (const piece of pieces(text)) await this.event("thinking", { text: piece });
  }

  /** Announces that a tool runs, and returns the id for `toolResult`. */
  async toolCall(name, input = null, id = `call-${++this.#calls}`) {
    await this.event("tool_call", { id, name, input });
    return id;
  }

  /** Sends the result of a tool. Of a long text the beginning. */
  toolResult(id, text, { isError = false } = {}) {
    return this.event("tool_result", { id, is_error: isError, text: text.slice(0, MAX_TEXT) });
  }

  /** Reports the sums since the iteration began, never differences. What is left out is as before. */
  usage({ cost = this.#usage?.cost, tokens = this.#usage?.tokens }) {
    this.#usage = { cost, tokens };
    return this.event("usage", { usage: writeUsage(this.#usage) });
  }

  /** Reports how full the model's context is, in tokens. */
  context(used, window = null) {
    return this.event("context", { used, window });
  }

  /** Reports how much of a rate window of the provider is used, from 0 to 1. */
  rateWindow(name, used, resetsAtMs = null) {
    return this.event("rate_window", { name, used, resets_at_ms: resetsAtMs });
  }

  /** Claims, for a model that called a tool made for it. */
  claim(text, kind = "complete") {
    return this.event("claim", { kind, text });
  }

  /** Leaves a note for later iterations. */
  note(text) {
    return this.event("note", { text });
  }

  /** Reports that the agent waits for its provider: no idle time. */
  waiting(reason, delayMs = null) {
    return this.event("waiting", { reason, delay_ms: delayMs });
  }

  /** Passes on a line of standard error of the agent's program. */
  stderr(line) {
    return this.event("stderr", { text: line.slice(0, MAX_TEXT) });
  }

  /** Passes on a line of the agent's own protocol, for the transcript. */
  raw(line) {
    return this.event("raw", { line: line.slice(0, MAX_TEXT) });
  }

  /** Warns the user. Does not end the iteration. */
  warning(message) {
    return this.event("warning", { message: message.slice(0, 8192) });
  }

  /** Requests the result that validation would have if the agent ended now. It decides nothing. */
  async preview(finalText = null) {
    const { result = "not_now", reasons = [], why = "" } = await this._request({ frame: "preview", final_text: finalText });
    return { result, reasons, why };
  }

  /** Whether the agent's own tools must not write this path, which is absolute or in the workspace. */
  async isWriteRefused(path) {
    if (!this._hostHas("write_check")) return false;
    const absolute = isAbsolute(path) ? path : join(this.workspace, path);
    return (await this._request({ frame: "write_check", path: absolute })).refused ?? true;
  }

  /** Takes what people sent with `steer` since it was taken last. It counts as delivered. */
  async takeGuidance() {
    if (!this._hostHas("guidance")) return [];
    return (await this._request({ frame: "take_guidance" })).guidance ?? [];
  }

  /** Returns the command of the server of the orchestrator's tools (MCP), or null if there is none. */
  toolServerCommand() {
    try {
      const { command } = JSON.parse(readFileSync(join(this.scratch, "tools.json"), "utf8"));
      const isCommand = Array.isArray(command) && command.every((word) => typeof word === "string");
      return isCommand ? command : null;
    } catch {
      return null;
    }
  }

  /** @internal Returns a report with what is known from events. */
  _report(report) {
    const { finalText, usage, session, exit, leftBehind, survived, denied } = report ?? {};
    return {
      final_text: finalText, usage: writeUsage(usage ?? this.#usage), session: session ?? this.#sessionId, exit,
      left_behind: leftBehind, survived, denied,
    };
  }
}

function* pieces(text) {
  for (let start = 0; start < text.length; start += MAX_TEXT) yield text.slice(start, start + MAX_TEXT);
}

function writeUsage(usage) {
  if (!usage) return undefined;
  const { input, output, cacheRead, cacheWrite } = usage.tokens ?? {};
  const tokens = usage.tokens && { input, output, cache_read: cacheRead, cache_write: cacheWrite };
  return { cost: usage.cost, tokens };
}

/** A claim that a validator decides about. */
export class Validation extends Call {
  constructor(session, call, { context }) {
    super(session, call, context.workspace, context.env);
    this.run = context.run;
    this.iteration = context.iteration;
    this.claim = context.claim;
    this.treeSince = context.tree_since;
    this.writtenIn = context.written_in ?? {};
    this.evidenceListed = context.evidence_listed ?? true;
    this.protectedChanges = context.protected_changes ?? [];
    if (!isTable(this.claim)) throw new TypeError("a validation has no claim");
  }
}

/** What a detector looks for claims in. */
export class Inspection extends Call {
  constructor(session, call, { input }) {
    super(session, call, input.workspace, { ...process.env });
    this.promptPath = input.prompt_path ?? null;
    this.prompt = input.prompt ?? null;
    this.finalText = input.final_text ?? null;
    this.given = input.given ?? null;
  }
}

/** What a validator looks at before a run. */
export class Setup extends Call {
  constructor(session, call, { workspace, env }) {
    super(session, call, workspace, env);
  }

  /** Whether a path, relative to the workspace, has to be as it was when the run began. */
  async isProtected(path) {
    if (!this._hostHas("write_check")) return false;
    return (await this._request({ frame: "write_check", path })).refused ?? true;
  }
}

// Items.

/** What agents, detectors, validators and formats have in common. */
export class Item {
  /** The name in ralph.toml; that of the class, as in `file-detector` of `FileDetector`, if it is left out. */
  static itemName = "";
  /** One line for display. */
  static summary = "";
  /** The JSON Schema of the table. */
  static schema = { type: "object", properties: {}, additionalProperties: false };

  constructor(config, context) {
    this.config = config;
    this.context = context;
  }

  /** Prepares the instance. Throw `Refused(key, message)` for a mistake in the table. */
  setup() {}
}

/** Does the work of an iteration. */
export class Agent extends Item {
  static kind = "agent";
  /** What the agent reports and understands: say what is true. */
  capabilities = [];
  /** The absolute path of the agent's program, if it has one. */
  program = null;
  /** The model; prices are looked up by it. */
  model = null;
  /** Variables of the orchestrator's environment that it needs in a clean one. */
  wantsEnv = [];
  /** Prefixes of variables that it must not inherit. */
  stripsEnv = [];

  check(_env) {
    return summaryOf(this.constructor);
  }

  run(_task) {
    throw new TypeError(`${this.constructor.name} has no method run(task)`);
  }

  launch(_task) {
    return null;
  }

  /** @internal */
  _describe() {
    const capabilities = Object.fromEntries([...this.capabilities].map((word) => [word, true]));
    const { program, model } = this;
    const [wants_env, strips_env] = [this.wantsEnv, this.stripsEnv];
    return { agent: { summary: summaryOf(this.constructor), program, model, capabilities, wants_env, strips_env } };
  }
}

/** Finds claims. It observes events if it has a method `observe`, and strips claims if it has `stripClaims`. */
export class Detector extends Item {
  static kind = "detector";
  /** One or two sentences for the agent: how to claim. */
  instructions = "";
  /** Texts of which a prompt that explains it has at least one. */
  forms = [];

  inspect(_inspection) {
    return [];
  }

  /** @internal */
  _describe() {
    const observes = typeof this.observe === "function";
    const strips = typeof this.stripClaims === "function";
    return { detector: { instructions: this.instructions, forms: this.forms, observes, strips } };
  }
}

/** Decides whether a claim is accepted. */
export class Validator extends Item {
  static kind = "validator";
  /** One line that the agent is told: what is required. The summary, if it is left out. */
  demands = "";
  /** Absolute paths of folders of evidence, which are no part of the work. */
  evidenceDirs = [];
  /** Globs of files in the workspace that must stay as they were when the run began. */
  protects = [];
  /** Globs of what would change its verdict by being there. */
  reservedPaths = [];
  /** Absolute paths of files outside of the workspace that decide its verdict, such as its program. */
  outsideFiles = [];
  /** Absolute paths that it goes through, which have to lead where they led when the run began. */
  passedPaths = [];
  /** Any change that it makes to the workspace is its error. */
  readOnly = false;
  /** It runs something. Set it to false if it only reads what the agent wrote. */
  runsCheck = true;
  /** How often in a row it has to accept. */
  passesRequired = 1;

  check(_env) {
    return "";
  }

  findSetupProblems(_setup) {
    return [];
  }

  validate(_validation) {
    throw new TypeError(`${this.constructor.name} has no method validate(validation)`);
  }

  /** @internal */
  _describe(name) {
    return { validator: {
      description: { kind: name, demands: this.demands || summaryOf(this.constructor) },
      evidence_dirs: this.evidenceDirs, protects: this.protects, reserved_paths: this.reservedPaths,
      outside_files: this.outsideFiles, passed_paths: this.passedPaths, read_only: this.readOnly,
      runs_check: this.runsCheck, passes_required: this.passesRequired,
    } };
  }
}

/** Reads and edits the text of a backlog. It reads and writes no file. */
export class BacklogFormat extends Item {
  static kind = "backlog";
  order = "file";
  /** The statuses that a text can hold, pending and completed among them. */
  statuses = ["pending", "completed"];
  /** An example of a text. */
  example = "";
  /** One or two sentences for agents that write into such a text. */
  instructions = "";

  read(_text) {
    throw new TypeError(`${this.constructor.name} has no method read(text)`);
  }

  edit(_text, _edits) {
    throw new TypeError(`${this.constructor.name} has no method edit(text, edits)`);
  }

  /** @internal */
  _describe() {
    const { order, statuses, example, instructions } = this;
    return { backlog: { order, statuses, example, instructions } };
  }
}

/** Returns the name of an item in ralph.toml. */
export function nameOf(item) {
  return item.itemName || item.name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase();
}

function summaryOf(item) {
  return item.summary || item.name;
}

// Frames.

/** Returns a frame as a line. Throws if it is no JSON or too long. */
export function encode(frame) {
  const line = JSON.stringify(frame, (_, value) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is no number of JSON`);
    return value;
  });
  const length = Buffer.byteLength(line);
  if (length > MAX_FRAME) throw new TypeError(`it has ${length} bytes, a frame at most ${MAX_FRAME}`);
  return `${line}\n`;
}

const REPORT_KEYS = ["finalText", "usage", "session", "exit", "leftBehind", "survived", "denied"];

/** Returns what `run` has returned, if it is a report. */
function readReport(ended) {
  if (ended === undefined || ended === null) return ended;
  const expected = `run: expected the last message or a report with ${REPORT_KEYS.join(", ")}`;
  if (typeof ended !== "object" || Array.isArray(ended)) throw new TypeError(`${expected}, not ${JSON.stringify(ended)}`);
  const unknown = Object.keys(ended).find((key) => !REPORT_KEYS.includes(key));
  if (unknown !== undefined) throw new TypeError(`${expected}; it has ${JSON.stringify(unknown)}`);
  return ended;
}

const METHODS = {
  agent: {
    check: [Call, async (item, _, { env }) => ({ found: (await item.check(env)) ?? "" })],
    run: [Task, async (item, task) => {
      const ended = await item.run(task);
      return { report: task._report(typeof ended === "string" ? { finalText: ended } : readReport(ended)) };
    }],
    launch: [Task, async (item, task) => ({ launch: (await item.launch(task)) ?? null })],
  },
  validator: {
    check: [Call, async (item, _, { env }) => ({ found: (await item.check(env)) ?? "" })],
    validate: [Validation, async (item, call) => ({ verdict: checkVerdict(await item.validate(call)) })],
    find_setup_problems: [Setup, async (item, call) => {
      const found = await item.findSetupProblems(call);
      const setup_problems = found.map(({ message, key, isFatal }) => ({ message, key: [key ?? []].flat(), is_fatal: isFatal }));
      return { setup_problems };
    }],
  },
  detector: {
    inspect: [Inspection, async (item, call) => {
      const found = (await item.inspect(call)) ?? [];
      const { claims, nearMisses = [], warnings = [] } = Array.isArray(found) ? { claims: found } : found;
      const near_misses = nearMisses.map((one) => ({ detector: "", ...one }));
      return { findings: { claims: claims ?? [], near_misses, warnings } };
    }],
    observe: [Call, async (item, _, { event }) => ({ claims: (await item.observe?.(event)) ?? [] })],
    strip_claims: [Call, async (item, _, { prompt }) => ({ text: (await item.stripClaims?.(prompt)) ?? prompt })],
  },
  backlog: {
    read_backlog: [Call, async (item, _, { text }) => ({ backlog: await readBacklog(item, text) })],
    edit_backlog: [Call, async (item, _, { text, edits }) => ({ edited: await editBacklog(item, text, edits) })],
  },
};

function checkVerdict(verdict) {
  if (isTable(verdict) && ["accepted", "rejected", "error"].includes(verdict.verdict)) return verdict;
  throw new TypeError(`validate() returned ${inspect(verdict)}, expected accepted(), rejected() or undecided()`);
}

function locate({ line, column = 1, ...rest }) {
  return line === undefined ? rest : { ...rest, location: { line, column } };
}

async function readBacklog(item, text) {
  try {
    return { items: [...(await item.read(text))].map((one) => locate({ status: "pending", ...one })) };
  } catch (error) {
    if (!(error instanceof Defects)) throw error;
    return { items: [], defects: error.defects.map(locate) };
  }
}

async function editBacklog(item, text, edits) {
  try {
    return { text: await item.edit(text, edits) };
  } catch (error) {
    if (error instanceof NotStorable) return { not_storable: error.message };
    if (error instanceof InvalidItem) return { invalid_item: error.message };
    throw error;
  }
}

/** Returns how an exception of the author's code is reported. Its stack goes to standard error. */
function panicked(error) {
  console.error(error);
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `threw ${inspect(error)}`;
  return { frame: "panicked", message, location: placeOf(error) };
}

/** Returns the innermost place of an exception outside of this package, where possible beside the plugin. */
function placeOf(error) {
  const frames = [...String(error?.stack ?? "").matchAll(/^ +at (?:(.*?) \()?(?:file:\/\/)?(\/[^\n]*?):(\d+):(\d+)\)?$/gm)]
    .map(([, name, file, line, column]) => ({ name, file: decodeURI(file), line, column }))
    .filter(({ file }) => file !== HERE);
  const folder = dirname(process.argv[1] ?? ".") + sep;
  const place = frames.find(({ file }) => file.startsWith(folder)) ?? frames[0];
  if (!place) return null;
  const name = place.name ? ` in ${place.name.replace(/^async /, "")}` : "";
  return `${basename(place.file)}:${place.line}:${place.column}${name}`;
}

/** A session with the host. It is given frames one after the other. */
export class Session {
  hostFeatures = new Set();
  /** How many events a call may send before it waits; null without a limit. */
  window = null;
  #items = new Map();
  #instances = new Map();
  #calls = new Map();
  #logged = -1;
  #whenEmpty = null;

  constructor(name, pluginVersion, items, write) {
    Object.assign(this, { name, pluginVersion, write });
    for (const item of items) {
      const key = `${item.kind} ${nameOf(item)}`;
      if (this.#items.has(key)) throw new TypeError(`two items have the name ${key}: give each an \`itemName\``);
      this.#items.set(key, item);
    }
  }

  /** Handles a line of the host; false after the last one. What is no frame is reported and ignored. */
  handleLine(line) {
    let frame;
    try {
      frame = JSON.parse(line);
    } catch (error) {
      if (line.trim()) console.error(`ignored a line of the host that is no frame: ${error.message}`);
      return true;
    }
    if (!isTable(frame) || typeof frame.frame !== "string") {
      console.error(`ignored a line of the host that is no frame: ${line.slice(0, 200)}`);
      return true;
    }
    if (frame.frame === "close") return false;
    try {
      this.#handle(frame);
    } catch (error) {
      console.error(`ignored an invalid frame \`${frame.frame}\` of the host: ${error.message}`);
      if (frame.frame === "call" && Number.isInteger(frame.call)) {
        this.#fail(frame.call, `the frame is invalid: ${error.message}`);
      }
    }
    return true;
  }

  #handle(frame) {
    switch (frame.frame) {
      case "hello": return this.#handleHello(frame);
      case "open": return void this.#open(frame);
      case "call": return this.#startCall(frame);
      case "cancel": return this.#cancel(frame);
      case "ping": return void this.write(encode({ frame: "pong", n: frame.n }));
      case "credit": case "preview_result": case "write_check_result": case "guidance_result":
        return this.#calls.get(frame.call)?._take(frame);
      default: // Of a newer version.
    }
  }

  #handleHello({ features = [], window = 64, log: level = "info" }) {
    this.hostFeatures = new Set(features);
    this.window = this.hostFeatures.has("credit") ? window : null;
    const provides = [...this.#items].map(([key, item]) => {
      const [kind, name] = key.split(" ");
      return { kind, name, summary: summaryOf(item), schema: item.schema };
    });
    const [name, sdk] = [this.name, `ralph-orchestrator-sdk ${version} (Node.js)`];
    this.write(encode({ frame: "hello", protocol: PROTOCOL, name, version: this.pluginVersion, sdk, features: FEATURES, provides }));
    this.#logged = Math.max(0, LEVELS.indexOf(level));
  }

  /** Sends a log message, if the host wants it. */
  log(level, message) {
    if (LEVELS.indexOf(level) > this.#logged) return;
    this.write(encode({ frame: "log", level, target: this.name, message: message.slice(0, MAX_TEXT) }));
  }

  async #open({ instance, kind, name, config, context }) {
    if (!Number.isInteger(instance)) return console.error("ignored an invalid frame `open` of the host: no instance");
    try {
      const found = [...this.#items].filter(([key]) => key.startsWith(`${kind} `) && (!name || key === `${kind} ${name}`));
      if (found.length !== 1) throw new Refused([], `the plugin has no ${kind} \`${name}\``);
      const [[key, Item]] = found;
      checkTable(Item.schema, config ?? {});
      const { config_dir: configDir, workspace, prompt_dir: promptDir, path } = context;
      const built = new Item(withDefaults(Item.schema, config ?? {}), { configDir, workspace, promptDir, path });
      await built.setup();
      const opened = encode({ frame: "opened", instance, ...built._describe(key.split(" ")[1]) });
      this.#instances.set(instance, built);
      this.write(opened);
    } catch (error) {
      if (error instanceof Refused) {
        const { key, unknown, message } = error;
        this.write(encode({ frame: "refused", instance, key, unknown_key: unknown, message }));
        return;
      }
      const { message, location } = panicked(error);
      const where = location ? ` (at ${location})` : "";
      this.write(encode({ frame: "refused", instance, key: [], message: `the plugin panicked: ${message}${where}` }));
    }
  }

  #fail(call, message) {
    this.write(encode({ frame: "failed", call, class: "invalid_request", message }));
  }

  #startCall(frame) {
    const { call: number, instance, method } = frame;
    const item = this.#instances.get(instance);
    if (!item) return this.#fail(number, `there is no instance ${instance}`);
    const methods = METHODS[item.constructor.kind];
    if (!has(methods, method)) return this.#fail(number, `it has no method \`${method}\``);
    const [Kind, perform] = methods[method];
    const call = Kind === Call ? new Call(this, number, ".", process.env) : new Kind(this, number, frame);
    this.#calls.set(number, call);
    void this.#work(number, call, () => perform(item, call, frame));
  }

  /** Performs a call, and answers it. */
  async #work(number, call, perform) {
    let answer;
    // A `cancel` that came with the call is read first.
    await new Promise(setImmediate);
    try {
      call.throwIfCancelled();
      answer = { frame: "done", ...(await perform()) };
      call.throwIfCancelled();
    } catch (error) {
      answer = this.#failure(call, error);
    }
    this.#finish(number, call, answer);
  }

  #failure(call, error) {
    if (!(error instanceof Failed) && !call.cancelled) return panicked(error);
    const failed = call.cancelled ? new Cancelled(call.cancelReason) : error;
    const report = call instanceof Task ? call._report({ ...error?.report, finalText: undefined }) : undefined;
    return { frame: "failed", class: failed.errorClass, message: failed.message, until_ms: failed.untilMs, report };
  }

  #finish(number, call, answer) {
    try {
      call._answer(answer);
    } catch (error) {
      call._answer(this.#failure(call, new Failed("crashed", `its result cannot be sent: ${error.message}`)));
    }
    this.#calls.delete(number);
    if (this.#calls.size === 0) this.#whenEmpty?.();
  }

  #cancel({ call: number, reason = "signal", grace_ms: grace = 0 }) {
    const call = this.#calls.get(number);
    if (!call) return;
    // A little earlier than the host, so that the answer is in time.
    setTimeout(() => {
      if (!this.#calls.has(number)) return;
      const answer = this.#failure(call, new Cancelled(reason));
      this.#finish(number, call, { ...answer, message: "it did not end after cancellation" });
    }, grace * 0.8).unref();
    call._cancel(String(reason));
  }

  /** Fails all calls with an exception that belongs to none of them. */
  panic(error) {
    const answer = panicked(error);
    for (const [number, call] of [...this.#calls]) this.#finish(number, call, answer);
  }

  /** Cancels all calls and waits until they have ended. */
  async end(grace = CLOSE_GRACE) {
    if (this.#calls.size === 0) return;
    const empty = new Promise((resolve) => { this.#whenEmpty = resolve; });
    for (const call of this.#calls.values()) call._cancel("signal");
    let timer;
    await Promise.race([empty, new Promise((resolve) => { timer = setTimeout(resolve, grace); })]);
    clearTimeout(timer);
  }
}

const LEVELS = ["error", "warn", "info", "debug", "trace"];

/** Yields whole lines. One that is longer than a frame may be is skipped, without being kept. */
async function* readLines(stream) {
  let kept = [];
  let length = 0;
  for await (const chunk of stream) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(10, start);
      const piece = chunk.subarray(start, end < 0 ? chunk.length : end);
      length += piece.length;
      if (length <= MAX_FRAME) kept.push(piece);
      else kept = [];
      if (end < 0) break;
      if (length <= MAX_FRAME) yield Buffer.concat(kept).toString("utf8");
      else console.error(`ignored a line of the host with more than ${MAX_FRAME} bytes`);
      [kept, length, start] = [[], 0, end + 1];
    }
  }
  if (length > 0) console.error(`ignored ${length} bytes of a frame without its end`);
}

/**
 * Speaks with the host until it ends the session, and ends the process at once. Call it last. The plugin's name is that
 * of its only item, or of the script, if it is left out. In `node --test` it does nothing.
 */
export async function run(...args) {
  // Its tests import the plugin's classes.
  if (process.env.NODE_TEST_CONTEXT) return;
  const options = typeof args.at(-1) === "function" ? {} : args.pop();
  const own = args.length === 1 ? nameOf(args[0]) : "";
  const script = basename(process.argv[1] ?? "plugin").replace(/\.[^.]*$/, "");
  const { name = own || script, version: pluginVersion = "0.1.0" } = options;
  if (process.stdin.isTTY) {
    console.error(`${name} is a plugin of ralph-orchestrator. Try \`ralph-orchestrator plugin check ${name}\` in the ` +
      "folder of a ralph.toml that names it.");
    process.exit(64);
  }
  protectStdout();
  const session = new Session(name, pluginVersion, args, (line) => new Promise((resolve) => { writeFrames(line, resolve); }));
  current = session;
  // The host is gone.
  process.stdout.on("error", () => process.exit(0));
  // A run that has to end cancels its calls.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => { void session.end().then(() => process.exit(143)); });
  process.on("uncaughtException", (error) => session.panic(error));
  for await (const line of readLines(process.stdin)) {
    if (!session.handleLine(line)) break;
  }
  await session.end();
  // Calls that did not end do not keep it.
  process.exit(0);
}
