// What tsc has to accept, and to reject, of an author's code.
import {
  Agent, Detector, Validator, accepted, claim, rejected, run, type Claim, type Task, type Validation, type Verdict,
} from "../src/index.mjs";
import { Workspace } from "../src/testing.mjs";

class Notes extends Validator<{ file: string }> {
  static override schema = { type: "object", properties: { file: { type: "string" } } };
  override readOnly = true;

  validate(call: Validation): Verdict {
    // @ts-expect-error There is no such key.
    this.config.flie;
    return call.readText(this.config.file) ? accepted("yes", [{ path: "/a" }]) : rejected("no");
  }
}

class Wrong extends Validator {
  // @ts-expect-error A verdict is needed.
  validate(): number {
    return 7;
  }
}

class Echo extends Agent {
  override capabilities = ["free", "tool_calls"] as const;

  async run(task: Task): Promise<string> {
    // @ts-expect-error Not of this kind.
    await task.claim("x", "done");
    const { status, output } = await task.runProgram(["cat"], { input: task.promptBytes, onOutput: (text) => task.text(text) });
    return `${status}${output.length}`;
  }
}

class Marks extends Detector {
  override inspect(): Claim[] {
    return [claim("x", { source: "state" })];
  }
}

// @ts-expect-error No class.
run("notes");
run(Notes, Echo, Marks, { name: "all" });

const verdict: Verdict = await (await new Workspace().open(Notes, { file: "a" })).validate();
if (verdict.verdict === "rejected") verdict.reasons.join();
export { Wrong };
