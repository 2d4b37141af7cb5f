"""An agent for any endpoint that speaks OpenAI's chat completions, with one tool, `bash`."""

from __future__ import annotations

import http.client
import json
import socket
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

from ralph_orchestrator_sdk import Agent, ErrorClass, Failed, Refused, Report, Task, Tokens, run

Json = Dict[str, Any]


def tool(name: str, description: str, argument: str) -> Json:
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    tool("bash", "Runs a command with bash in the working folder.", "command"),
    tool("claim_complete", "Claims that the whole task is complete.", "message"),
    tool("note", "Leaves a note for later sessions.", "text"),
]
CLASSES: Dict[int, ErrorClass] = {401: "unauthenticated", 402: "billing", 403: "unauthenticated", 404: "not_found",
                                  413: "context_exceeded", 429: "rate_limited"}


@dataclass
class Config:
    base_url: str
    model: str
    api_key_env: Optional[str] = None
    context_window: Optional[int] = None


class Chat(Agent[Config]):
    """Asks a model at an OpenAI-compatible endpoint and runs its commands with bash."""

    name = "chat"
    capabilities = {"tokens", "context", "tool_calls", "interrupt", "in_session_validation"}

    def setup(self) -> None:
        self.model = self.config.model
        self.url = urlsplit(self.config.base_url)
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise Refused("base_url", "expected a URL such as \"https://api.openai.com/v1\"")

    def run(self, task: Task) -> Report:
        prompt = task.prompt
        task.session(f"{task.run}-{task.number}", self.config.model)
        messages: List[Json] = [{"role": "user", "content": prompt}]
        total = Tokens()
        while True:
            answer = self.ask(task, messages)
            total = self.count(task, total, answer.get("usage") or {})
            message: Json = answer["choices"][0]["message"]
            if message.get("reasoning_content"):
                task.thinking(message["reasoning_content"])
            text: str = message.get("content") or ""
            if text:
                task.text(text)
            if not message.get("tool_calls"):
                return Report(text)
            messages.append(message)
            for call in message["tool_calls"]:
                messages.append(self.perform(task, call["id"], call["function"]))

    def ask(self, task: Task, messages: List[Json]) -> Json:
        """Posts the messages; the connection is shut down when the call is cancelled."""
        body = json.dumps({"model": self.config.model, "messages": messages, "tools": TOOLS})
        headers = {"content-type": "application/json"}
        if self.config.api_key_env:
            headers["authorization"] = f"Bearer {task.env.get(self.config.api_key_env, '')}"
        make = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = make(self.url.hostname or "", self.url.port, timeout=600)
        try:
            connection.connect()
            opened: socket.socket = connection.sock
            forget = task.on_cancel(lambda: opened.shutdown(socket.SHUT_RDWR))
            try:
                connection.request("POST", f"{self.url.path}/chat/completions", body, headers)
                response = connection.getresponse()
                answered = response.read()
            finally:
                forget()
        except (OSError, http.client.HTTPException) as error:
            raise Failed("overloaded", f"{self.config.base_url} cannot be reached: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            wait = response.getheader("retry-after")
            until = int((time.time() + float(wait)) * 1000) if wait else None
            failure: ErrorClass = "overloaded" if response.status >= 500 else "invalid_request"
            raise Failed(CLASSES.get(response.status, failure),
                         f"the endpoint answered {response.status}: {answered[:300]!r}", until_ms=until)
        answer: Json = json.loads(answered)
        return answer

    def count(self, task: Task, total: Tokens, usage: Json) -> Tokens:
        details: Json = usage.get("prompt_tokens_details") or {}
        cached, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
        prompt, output = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        total = Tokens(total.input + prompt - cached - written, total.output + output, total.cache_read + cached,
                       total.cache_write + written)
        task.usage(tokens=total)
        task.context(prompt + output, self.config.context_window)
        return total

    def perform(self, task: Task, id: str, function: Json) -> Json:
        """Does what the model wants, and returns the message that answers it."""
        name, arguments = function["name"], json.loads(function["arguments"])
        task.tool_call(name, arguments, id)
        text, is_error = self.call_tool(task, name, arguments)
        task.tool_result(id, text, is_error)
        return {"role": "tool", "tool_call_id": id, "content": text}

    def call_tool(self, task: Task, name: str, arguments: Json) -> Tuple[str, bool]:
        if name == "bash":
            ended = task.run_program(["bash", "-c", arguments["command"]], merge_stderr=True, max_output=32768)
            return ended.output + (f"\n[exit {ended.status}]" if ended.status else ""), ended.status != 0
        if name == "note":
            task.note(arguments["text"])
            return "Noted.", False
        task.claim(arguments["message"])
        preview = task.preview()
        if preview.result == "rejected":
            return "\n- ".join(["The claim would be rejected:", *preview.reasons]), True
        return "The claim is noted. End your turn now.", False


run(Chat)
