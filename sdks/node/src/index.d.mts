// The types of index.mjs.

export declare const version: string;
export declare const MAX_FRAME: number;

export type ErrorClass =
  | "rate_limited" | "overloaded" | "unauthenticated" | "billing" | "invalid_request" | "not_found"
  | "context_exceeded" | "agent_limit" | "crashed" | "timed_out" | "unavailable" | "cancelled";
export type CancelReason =
  | "timeout" | "idle" | "max_runtime" | "max_cost" | "max_tokens" | "handoff" | "signal" | "pause";
export type Capability =
  | "cost" | "tokens" | "context" | "rate_windows" | "tool_calls" | "interrupt" | "handoff"
  | "in_session_validation" | "resume" | "free";
export type ItemStatus = "pending" | "in_progress" | "completed" | "blocked";
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonSchema = { readonly [key: string]: unknown };
type Awaitable<T> = T | Promise<T>;

export interface BuildContext {
  configDir: string;
  workspace: string;
  promptDir: string;
  path: string;
}

export interface Claim {
  kind: "complete" | "needs_human";
  source: "message" | "state" | "tool";
  text: string;
  detector: string;
}

export interface NearMiss {
  text: string;
  line: number;
  hint: string;
}

export interface Findings {
  claims?: Claim[];
  nearMisses?: NearMiss[];
  warnings?: string[];
}

export interface Evidence {
  path: string;
  digest?: string;
  bytes?: number;
}

export type Verdict =
  | { verdict: "accepted"; summary: string; evidence: Evidence[] }
  | { verdict: "rejected"; reasons: string[] }
  | { verdict: "error"; message: string };

export interface Tokens {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
}

export interface Usage {
  cost?: number;
  tokens?: Tokens;
}

/** `session` and `usage` are those that were sent as events, if they are left out. */
export interface Report {
  finalText?: string;
  usage?: Usage;
  session?: string;
  exit?: string;
  leftBehind?: string[];
  survived?: { name: string; pid: number; started: number }[];
  denied?: string[];
}

export interface Preview {
  result: "no_claim" | "accepted" | "rejected" | "not_now";
  reasons: string[];
  why: string;
}

export interface Guidance {
  id: string;
  text: string;
}

export interface Launch {
  program?: string | null;
  argv?: string[];
  env?: Record<string, string>;
}

export interface SetupProblem {
  message: string;
  key?: string | string[];
  isFatal?: boolean;
}

export interface BacklogItem {
  id: string;
  title: string;
  status?: ItemStatus;
  description?: string;
  priority?: number;
  criteria?: string[];
  dependencies?: string[];
  notes?: string[];
  verify?: string | null;
  line?: number;
  column?: number;
}

export interface NewItem {
  id?: string | null;
  title: string;
  description?: string;
  category?: string | null;
  priority?: number | null;
  criteria?: string[];
  dependencies?: string[];
}

export type BacklogEdit =
  | { edit: "set_status"; id: string; status: ItemStatus }
  | { edit: "set_notes"; id: string; notes: string[] }
  | { edit: "add"; item: NewItem };

export interface Defect {
  message: string;
  line?: number;
  column?: number;
  item?: string;
}

/** A mistake in the table: the key, or its path, and what was expected. `unknown` is a key that does not exist. */
export declare class Refused extends Error {
  constructor(key: string | readonly string[], message: string, unknown?: string | null);
  readonly key: string[];
  readonly unknown: string | null;
}

/** Fails a call with a class, which decides what the host does. */
export declare class Failed extends Error {
  constructor(errorClass: ErrorClass, message: string, options?: { untilMs?: number | undefined; report?: Report });
  readonly errorClass: ErrorClass;
  readonly untilMs?: number;
  readonly report?: Report;
}

/** Ends a call that was cancelled. */
export declare class Cancelled extends Failed {
  constructor(reason?: string);
  readonly reason: string;
}

/** A text that is not valid. */
export declare class Defects extends Error {
  constructor(...defects: Defect[]);
  readonly defects: Defect[];
}

/** What a format has no place for, such as "a priority". */
export declare class NotStorable extends Error {}

/** What is wrong with an item to be added, and what to do. */
export declare class InvalidItem extends Error {}

/** Returns the verdict that a claim is accepted. */
export declare function accepted(summary: string, evidence?: readonly (string | Evidence)[]): Verdict;
/** Returns the verdict that a claim is rejected. The agent reads the reasons: what is missing, and what to do. */
export declare function rejected(...reasons: string[]): Verdict;
/** Returns the verdict `error`: the validator could not decide. People read the message. */
export declare function undecided(message: string): Verdict;
/** Returns a claim. */
export declare function claim(text: string, options?: { kind?: Claim["kind"]; source?: Claim["source"] }): Claim;
/** Throws `Refused` for the first value that its JSON Schema does not allow, as the host does. */
export declare function checkTable(schema: JsonSchema, value: unknown, path?: string[]): void;

/** Sends log messages to the host, which shows warnings and errors as warnings of the run. */
export declare const log: Record<"error" | "warn" | "info" | "debug", (message: unknown) => void>;

export interface ProgramOptions {
  input?: string | Uint8Array;
  cwd?: string;
  env?: Readonly<Record<string, string | undefined>>;
  timeoutMs?: number;
  mergeStderr?: boolean;
  /** Gets pieces of what the program prints as they come. */
  onOutput?: (text: string) => Awaitable<unknown>;
  maxOutput?: number;
}

export interface ProgramResult {
  /** The exit status; null if a signal ended it. */
  status: number | null;
  signal: string | null;
  /** The end of what it printed. */
  output: string;
}

/** One call of the host. It can be cancelled while it works. */
export declare class Call {
  protected constructor();
  readonly workspace: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the call has to end. */
  get signal(): AbortSignal;
  /** Whether the call has to end. */
  get cancelled(): boolean;
  /** Why it has to end. */
  get cancelReason(): CancelReason | null;
  /** Throws `Cancelled` if the call has to end. Call it in loops. */
  throwIfCancelled(): void;
  /** Waits; throws `Cancelled` as soon as the call has to end. */
  sleep(milliseconds: number): Promise<void>;
  /** Reads the beginning of a regular file in the workspace; null if there is none that can be read. */
  readText(path: string, maxBytes?: number): string | null;
  /** Runs a program in the workspace with the environment of the call, and ends all that it has started. */
  runProgram(argv: readonly [string, ...string[]], options?: ProgramOptions): Promise<ProgramResult>;
}

/** An iteration that an agent performs. Its methods send events, in the order in which things happen. */
export declare class Task extends Call {
  readonly run: string;
  /** The iteration's number, from 1. */
  readonly number: number;
  readonly scratch: string;
  /** The prompt. Fails the call with `invalid_request` if it is no UTF-8; `promptBytes` has any. */
  get prompt(): string;
  readonly promptBytes: Uint8Array;
  /** What is left of the limits; null has no limit. */
  readonly budget: { cost: number | null; tokens: number | null; seconds: number | null };
  /** Sends any event. Waits while the host is busy. */
  event(type: string, keys?: Record<string, unknown>): Promise<void>;
  /** Names the agent's session: first, and once. */
  session(id: string, model?: string | null): Promise<void>;
  /** Sends a piece of the agent's own text. */
  text(text: string): Promise<void>;
  /** Sends a piece of the agent's reasoning. */
  thinking(text: string): Promise<void>;
  /** Announces that a tool runs, and returns the id for `toolResult`. */
  toolCall(name: string, input?: unknown, id?: string): Promise<string>;
  /** Sends the result of a tool. Of a long text the beginning. */
  toolResult(id: string, text: string, options?: { isError?: boolean }): Promise<void>;
  /** Reports the sums since the iteration began, never differences. What is left out is as before. */
  usage(usage: Usage): Promise<void>;
  /** Reports how full the model's context is, in tokens. */
  context(used: number, window?: number | null): Promise<void>;
  /** Reports how much of a rate window of the provider is used, from 0 to 1. */
  rateWindow(name: string, used: number, resetsAtMs?: number | null): Promise<void>;
  /** Claims, for a model that called a tool made for it. */
  claim(text: string, kind?: Claim["kind"]): Promise<void>;
  /** Leaves a note for later iterations. */
  note(text: string): Promise<void>;
  /** Reports that the agent waits for its provider: no idle time. */
  waiting(reason: string, delayMs?: number | null): Promise<void>;
  /** Passes on a line of standard error of the agent's program. */
  stderr(line: string): Promise<void>;
  /** Passes on a line of the agent's own protocol, for the transcript. */
  raw(line: string): Promise<void>;
  /** Warns the user. Does not end the iteration. */
  warning(message: string): Promise<void>;
  /** Requests the result that validation would have if the agent ended now. It decides nothing. */
  preview(finalText?: string | null): Promise<Preview>;
  /** Whether the agent's own tools must not write this path, which is absolute or in the workspace. */
  isWriteRefused(path: string): Promise<boolean>;
  /** Takes what people sent with `steer` since it was taken last. It counts as delivered. */
  takeGuidance(): Promise<Guidance[]>;
  /** Returns the command of the server of the orchestrator's tools (MCP), or null if there is none. */
  toolServerCommand(): string[] | null;
}

/** A claim that a validator decides about. */
export declare class Validation extends Call {
  readonly run: string;
  readonly iteration: number;
  readonly claim: Claim;
  readonly treeSince: number;
  readonly writtenIn: Readonly<Record<string, number>>;
  readonly evidenceListed: boolean;
  readonly protectedChanges: readonly { path: string; kind: "added" | "modified" | "removed" }[];
}

/** What a detector looks for claims in. */
export declare class Inspection extends Call {
  readonly promptPath: string | null;
  readonly prompt: string | null;
  readonly finalText: string | null;
  readonly given: string | null;
}

/** What a validator looks at before a run. */
export declare class Setup extends Call {
  /** Whether a path, relative to the workspace, has to be as it was when the run began. */
  isProtected(path: string): Promise<boolean>;
}

/** What agents, detectors, validators and formats have in common. */
export declare abstract class Item<Config = Record<string, never>> {
  /** The name in ralph.toml; that of the class, as in `file-detector` of `FileDetector`, if it is left out. */
  static itemName: string;
  /** One line for display. */
  static summary: string;
  /** The JSON Schema of the table. Without one it has no keys. Defaults are filled in. */
  static schema: JsonSchema;
  constructor(config: Config, context: BuildContext);
  readonly config: Config;
  readonly context: BuildContext;
  /** Prepares the instance. Throw `Refused(key, message)` for a mistake in the table. */
  setup(): Awaitable<void>;
}

/** Does the work of an iteration. */
export declare abstract class Agent<Config = Record<string, never>> extends Item<Config> {
  static kind: "agent";
  /** What the agent reports and understands: say what is true. */
  capabilities: Iterable<Capability>;
  /** The absolute path of the agent's program, if it has one. */
  program: string | null;
  /** The model; prices are looked up by it. */
  model: string | null;
  /** Variables of the orchestrator's environment that it needs in a clean one. */
  wantsEnv: string[];
  /** Prefixes of variables that it must not inherit. */
  stripsEnv: string[];
  /** Returns what was found, such as a version. Throw `Failed` if the agent cannot work. Spends nothing. */
  check(env: Readonly<Record<string, string>>): Awaitable<string>;
  /** Performs an iteration. Returns the agent's last message, or a report with it. */
  abstract run(task: Task): Awaitable<Report | string | void>;
  /** Returns what `run` would start; starts nothing. */
  launch(task: Task): Awaitable<Launch | null>;
}

/** Finds claims. It observes events if it has a method `observe`, and strips claims if it has `stripClaims`. */
export declare abstract class Detector<Config = Record<string, never>> extends Item<Config> {
  static kind: "detector";
  /** One or two sentences for the agent: how to claim. */
  instructions: string;
  /** Texts of which a prompt that explains it has at least one. */
  forms: string[];
  /** Finds claims in the workspace and the final message. What is in `inspection.given` is no claim. */
  inspect(inspection: Inspection): Awaitable<Claim[] | Findings>;
  /** Finds claims in an event of the agent. */
  observe?(event: { type: string; [key: string]: unknown }): Awaitable<Claim[]>;
  /** Removes claims from the prompt. */
  stripClaims?(prompt: string): Awaitable<string>;
}

/** Decides whether a claim is accepted. */
export declare abstract class Validator<Config = Record<string, never>> extends Item<Config> {
  static kind: "validator";
  /** One line that the agent is told: what is required. The summary, if it is left out. */
  demands: string;
  /** Absolute paths of folders of evidence, which are no part of the work. */
  evidenceDirs: string[];
  /** Globs of files in the workspace that must stay as they were when the run began. */
  protects: string[];
  /** Globs of what would change its verdict by being there. */
  reservedPaths: string[];
  /** Absolute paths of files outside of the workspace that decide its verdict, such as its program. */
  outsideFiles: string[];
  /** Absolute paths that it goes through, which have to lead where they led when the run began. */
  passedPaths: string[];
  /** Any change that it makes to the workspace is its error. */
  readOnly: boolean;
  /** It runs something. Set it to false if it only reads what the agent wrote. */
  runsCheck: boolean;
  /** How often in a row it has to accept. */
  passesRequired: number;
  /** Returns what was found, such as a version. Throw `Failed` if the validator cannot work. */
  check(env: Readonly<Record<string, string>>): Awaitable<string>;
  /** Returns what the user should know before the run. */
  findSetupProblems(setup: Setup): Awaitable<SetupProblem[]>;
  /** Decides about a claim. */
  abstract validate(validation: Validation): Awaitable<Verdict>;
}

/** Reads and edits the text of a backlog. It reads and writes no file. */
export declare abstract class BacklogFormat<Config = Record<string, never>> extends Item<Config> {
  static kind: "backlog";
  order: "file" | "lowest" | "lowest_then_id" | "in_progress_then_highest";
  /** The statuses that a text can hold, pending and completed among them. */
  statuses: ItemStatus[];
  /** An example of a text. */
  example: string;
  /** One or two sentences for agents that write into such a text. */
  instructions: string;
  /** Returns the items. Throw `Defects` for a text that is not valid. */
  abstract read(text: string): Awaitable<BacklogItem[]>;
  /** Returns the text after the edits. Throw `NotStorable` or `InvalidItem` where that is not possible. */
  abstract edit(text: string, edits: BacklogEdit[]): Awaitable<string>;
}

/** A class of items that can be built. */
export type ItemClass = (new (config: any, context: BuildContext) => Item<any>) & { readonly kind: string; itemName: string };

/** Returns the name of an item in ralph.toml. */
export declare function nameOf(item: ItemClass): string;

/** Speaks with the host until it ends the session, and ends the process at once. Call it last. */
export declare function run(...items: ItemClass[]): Promise<void>;
export declare function run(...args: [...ItemClass[], { name?: string; version?: string }]): Promise<void>;

/** @internal */
export declare class Session {
  constructor(name: string, version: string, items: readonly ItemClass[], write: (line: string) => unknown);
  handleLine(line: string): boolean;
  end(grace?: number): Promise<void>;
}
