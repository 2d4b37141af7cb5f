// The types of testing.mjs.

import type { BacklogEdit, CancelReason, Claim, ErrorClass, ItemClass, Json, Verdict } from "./index.mjs";

type Frame = { [key: string]: any };
type Event = { type: string; [key: string]: any };

/** The author's code threw in a call. */
export declare class Panicked extends Error {
  constructor(message: string, location: string | null);
  readonly panic: string;
  readonly location: string | null;
}

/** A folder of its own, which is deleted by `close`, and the host of items that work in it. */
export declare class Workspace {
  readonly path: string;
  readonly scratch: string;
  /** The answers to `Task.preview`, such as `{ result: "rejected", reasons: ["…"] }`. */
  previews: Frame[];
  /** Paths, relative to the workspace, that must not be written. */
  refusedWrites: string[];
  /** What people sent. */
  guidance: string[];
  /** Ends all sessions and deletes the folder. */
  close(): Promise<void>;
  /** Writes a file, with the folders above it, and returns its path. */
  write(name: string, content: string | Uint8Array): string;
  /** Builds an item from its table, as a session of its own would. */
  open(item: ItemClass, config?: Record<string, Json>): Promise<TestedItem>;
}

/** A call that may still work. */
export declare class RunningCall {
  readonly events: Event[];
  readonly answer: Promise<Frame>;
  /** Waits for an event of this type and returns it. */
  waitForEvent(type: string): Promise<Event>;
  /** Cancels the call. */
  cancel(reason?: CancelReason, graceMs?: number): this;
  /** Waits for the answer and returns its keys. */
  result(): Promise<Frame>;
  /** Waits for the end of a `run` and returns its report, even if the run failed. */
  report(): Promise<Frame>;
}

/** An item that was built. */
export declare class TestedItem {
  /** What it says of itself, as the orchestrator is told. */
  readonly description: Frame;
  /** What it has logged. */
  readonly logs: Frame[];
  /** Starts a call of any method. */
  start(method: string, parameters: Frame): RunningCall;
  /** Calls `check` of an agent or validator. */
  check(): Promise<string>;
  /** Starts an iteration of an agent. */
  startRun(prompt?: string | Uint8Array): RunningCall;
  /** Runs an iteration of an agent; returns its report and its events. */
  run(prompt?: string | Uint8Array): Promise<{ report: Frame; events: Event[] }>;
  /** Starts a validation of a claim. Keys of the context replace those of a first iteration. */
  startValidate(text?: string, context?: Frame): RunningCall;
  /** Has a validator decide about a claim. */
  validate(text?: string, context?: Frame): Promise<Verdict>;
  /** Asks a validator what the user should know before a run. */
  findSetupProblems(): Promise<Frame[]>;
  /** Has a detector find claims. */
  inspect(input?: { finalText?: string | null; given?: string | null; prompt?: string | null }): Promise<Claim[]>;
  /** Gives a detector an event. */
  observe(event: Event): Promise<Claim[]>;
  /** Has a detector remove claims from a prompt. */
  stripClaims(prompt: string): Promise<string>;
  /** Has a format of backlogs read a text; returns `items` or `defects`. */
  read(text: string): Promise<Frame>;
  /** Has a format of backlogs edit a text; returns `text`, `not_storable` or `invalid_item`. */
  edit(text: string, edits: BacklogEdit[]): Promise<Frame>;
}
