// The plugin of process.test.mjs: what it does is the claim's text.
import { spawnSync } from "node:child_process";

import { Agent, Validator, accepted, log, rejected, run } from "../src/index.mjs";

console.log("printed before run() is called");

class Odd extends Validator {
  static summary = "does what the claim says";

  async validate(call) {
    const what = call.claim.text;
    if (what === "print") {
      console.log("printed");
      process.stdout.write("written\n");
      spawnSync("sh", ["-c", "echo printed by a program >&2"], { stdio: ["ignore", 2, 2] });
    } else if (what === "throw") throw new RangeError("bad value");
    else if (what === "throw text") throw "text";
    else if (what === "throw elsewhere") {
      setTimeout(() => { throw new RangeError("elsewhere"); });
      await new Promise(() => {});
    } else if (what === "hang") {
      log.info("hangs");
      await new Promise(() => {});
    }
    else if (what === "log") log.warn("warned of this");
    else if (what === "no verdict") return null;
    else if (what === "huge") return accepted("x".repeat(17 * 1024 * 1024));
    else if (what === "reject") return rejected("first", "second");
    else if (what === "sleep") await call.sleep(60_000);
    return accepted(`${what.length} characters`);
  }
}

class Endless extends Agent {
  static summary = "prints for ever";

  async run(task) {
    for (;;) await task.text("more");
  }
}

run(Odd, Endless, { name: "odd" });
