// @ts-check
// An item of each kind but an agent, for the conformance tests.
import { join } from "node:path";

import {
  BacklogFormat, Detector, InvalidItem, NotStorable, Validator, accepted, claim, rejected, run,
} from "./ralph-orchestrator-sdk/index.mjs";

/** @typedef {import("./ralph-orchestrator-sdk/index.mjs").Claim} Claim */
const MARK = /<<(.*?)>>/gs;
const ITEM = /^\[( |x)\] (\S.*)$/;

export class Marks extends Detector {
  static itemName = "marks";
  static summary = "finds <<marks>>";
  instructions = "Write what you did between two angle brackets on each side.";

  /** @param {import("./ralph-orchestrator-sdk/index.mjs").Inspection} inspection */
  inspect({ finalText, given }) {
    const text = finalText ?? "";
    const claims = [...text.matchAll(MARK)].filter(([whole]) => !given?.includes(whole)).map(([, inner]) => claim(inner ?? ""));
    const isNear = text.includes("<<") && !text.includes(">>");
    return { claims, nearMisses: isNear ? [{ text: text.slice(0, 20), line: 1, hint: "close it by >>" }] : [] };
  }

  /** @param {{ type: string, text?: string }} event @returns {Claim[]} */
  observe({ type, text }) {
    return type === "text" && text?.includes("<<") ? [claim(text, { source: "tool" })] : [];
  }

  /** @param {string} prompt */
  stripClaims(prompt) {
    return prompt.replace(MARK, "").replaceAll("<<", "").replaceAll(">>", "");
  }
}

export class Written extends Validator {
  static itemName = "written";
  static summary = "requires a.txt";
  demands = "a.txt is there";
  readOnly = true;

  /** @param {import("./ralph-orchestrator-sdk/index.mjs").Setup} setup */
  async findSetupProblems(setup) {
    return (await setup.isProtected("a.txt")) ? [] : [{ message: "a.txt is not protected" }];
  }

  /** @param {import("./ralph-orchestrator-sdk/index.mjs").Validation} validation */
  async validate(validation) {
    const { status, output } = await validation.runProgram(["cat", "a.txt"], { mergeStderr: true });
    if (status === 0) return accepted("a.txt is there", [join(validation.workspace, "a.txt")]);
    return rejected(`${output.trim()}: write it`);
  }
}

export class Boxes extends BacklogFormat {
  static itemName = "boxes";
  static summary = "a line with a box for each item";
  example = "[ ] log in\n[x] sign up\n";

  /** @param {string} text */
  read(text) {
    /** @type {import("./ralph-orchestrator-sdk/index.mjs").BacklogItem[]} */
    const items = [];
    for (const [index, line] of text.split("\n").entries()) {
      const [, box, rest] = ITEM.exec(line) ?? [];
      if (rest === undefined) continue;
      const title = rest.trim();
      items.push({ id: title, title, status: box === "x" ? "completed" : "pending", line: index + 1 });
    }
    return items;
  }

  /** @param {string} text @param {import("./ralph-orchestrator-sdk/index.mjs").BacklogEdit[]} edits */
  edit(text, edits) {
    for (const edit of edits) {
      if (edit.edit === "set_notes") throw new NotStorable("notes");
      if (edit.edit === "set_status") {
        const lines = text.split("\n");
        const number = (this.read(text).find(({ id }) => id === edit.id)?.line ?? 0) - 1;
        lines[number] = (edit.status === "completed" ? "[x]" : "[ ]") + lines[number]?.slice(3);
        text = lines.join("\n");
        continue;
      }
      const { id, title, description, category, priority, criteria, dependencies } = edit.item;
      if ((id && id !== title) || description || category || priority != null || criteria?.length || dependencies?.length) {
        throw new NotStorable("more than a title");
      }
      if (!title.trim() || title.includes("\n")) throw new InvalidItem("its title is no line");
      text += `${text === "" || text.endsWith("\n") ? "" : "\n"}[ ] ${title}\n`;
    }
    return text;
  }
}

run(Marks, Written, Boxes, { name: "every" });
