// @ts-check
// An agent for any endpoint that speaks OpenAI's chat completions, with one tool, `bash`.

import { Agent, Failed, Refused, run } from "./ralph-orchestrator-sdk/index.mjs";

/** @typedef {import("./ralph-orchestrator-sdk/index.mjs").Task} Task */
/** @typedef {import("./ralph-orchestrator-sdk/index.mjs").ErrorClass} ErrorClass */
/** @typedef {{ base_url: string, model: string, api_key_env?: string, context_window?: number }} Config */

const tool = (/** @type {string} */ name, /** @type {string} */ description, /** @type {string} */ argument) => {
  const parameters = { type: "object", properties: { [argument]: { type: "string" } }, required: [argument] };
  return { type: "function", function: { name, description, parameters } };
};
const TOOLS = [
  tool("bash", "Runs a command with bash in the working folder.", "command"),
  tool("claim_complete", "Claims that the whole task is complete.", "message"),
  tool("note", "Leaves a note for later sessions.", "text"),
];
/** @type {Record<number, ErrorClass>} */
const CLASSES = {
  401: "unauthenticated", 402: "billing", 403: "unauthenticated", 404: "not_found", 413: "context_exceeded",
  429: "rate_limited",
};

/** @extends {Agent<Config>} */
class Chat extends Agent {
  static itemName = "chat";
  static summary = "Asks a model at an OpenAI-compatible endpoint and runs its commands with bash";
  static schema = {
    type: "object",
    properties: {
      base_url: { type: "string" }, model: { type: "string" }, api_key_env: { type: "string" },
      context_window: { type: "integer" },
    },
    required: ["base_url", "model"],
    additionalProperties: false,
  };
  /** @type {import("./ralph-orchestrator-sdk/index.mjs").Capability[]} */
  capabilities = ["tokens", "context", "tool_calls", "interrupt", "in_session_validation"];
  model = this.config.model;

  setup() {
    if (!/^https?:\/\//.test(this.config.base_url)) {
      throw new Refused("base_url", "expected a URL such as \"https://api.openai.com/v1\"");
    }
  }

  /** @param {Task} task */
  async run(task) {
    const { prompt } = task;
    await task.session(`${task.run}-${task.number}`, this.config.model);
    /** @type {any[]} */
    const messages = [{ role: "user", content: prompt }];
    const total = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
    for (;;) {
      const { choices: [{ message }], usage } = await this.ask(task, messages);
      await this.count(task, total, usage ?? {});
      if (message.reasoning_content) await task.thinking(message.reasoning_content);
      if (message.content) await task.text(message.content);
      if (!message.tool_calls?.length) return { finalText: message.content ?? "" };
      messages.push(message);
      for (const { id, function: called } of message.tool_calls) {
        messages.push(await this.perform(task, id, called.name, JSON.parse(called.arguments)));
      }
    }
  }

  /** @param {Task} task @param {any[]} messages */
  async ask(task, messages) {
    const { base_url: url, model, api_key_env: key } = this.config;
    const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${task.env[key]}` }) };
    const body = JSON.stringify({ model, messages, tools: TOOLS });
    let response, answer;
    try {
      response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body, signal: task.signal });
      answer = await response.text();
    } catch (error) {
      throw new Failed("overloaded", `${url} cannot be reached: ${error}`);
    }
    if (response.ok) return JSON.parse(answer);
    const wait = response.headers.get("retry-after");
    const untilMs = wait ? Math.round(Date.now() + Number(wait) * 1000) : undefined;
    const errorClass = CLASSES[response.status] ?? (response.status >= 500 ? "overloaded" : "invalid_request");
    throw new Failed(errorClass, `the endpoint answered ${response.status}: ${answer.slice(0, 300)}`, { untilMs });
  }

  /** @param {Task} task @param {Record<string, number>} total @param {any} usage */
  async count(task, total, { prompt_tokens: prompt = 0, completion_tokens: output = 0, prompt_tokens_details: details }) {
    const [cached, written] = [details?.cached_tokens ?? 0, details?.cache_write_tokens ?? 0];
    total.input += prompt - cached - written;
    total.output += output;
    total.cacheRead += cached;
    total.cacheWrite += written;
    await task.usage({ tokens: { ...total } });
    await task.context(prompt + output, this.config.context_window);
  }

  /** @param {Task} task @param {string} id @param {string} name @param {any} input */
  async perform(task, id, name, input) {
    await task.toolCall(name, input, id);
    const { text, isError } = await this.callTool(task, name, input);
    await task.toolResult(id, text, { isError });
    return { role: "tool", tool_call_id: id, content: text };
  }

  /** @param {Task} task @param {string} name @param {any} input */
  async callTool(task, name, input) {
    if (name === "bash") {
      const argv = /** @type {[string, ...string[]]} */ (["bash", "-c", input.command]);
      const { status, output } = await task.runProgram(argv, { mergeStderr: true, maxOutput: 32768 });
      return { text: status === 0 ? output : `${output}\n[exit ${status}]`, isError: status !== 0 };
    }
    if (name === "note") {
      await task.note(input.text);
      return { text: "Noted.", isError: false };
    }
    await task.claim(input.message);
    const { result, reasons } = await task.preview();
    const isError = result === "rejected";
    const text = isError ? ["The claim would be rejected:", ...reasons].join("\n- ") : "The claim is noted. End your turn.";
    return { text, isError };
  }
}

run(Chat);
