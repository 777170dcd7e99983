"""A model with a chat endpoint as OpenAI has it, on loopback. It solves one task, if it is asked the right way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SENTENCE = "Check the result of your commands before you say that the task is complete."
"""The sentence of a good template."""


@dataclass
class ScriptedModel:
    """What the endpoint answers.

    Attributes:
        commands: keystrokes that solve the task; sent if the first prompt holds `SENTENCE`.
        status: HTTP status of every answer.
        delay: seconds before each answer.
        asked: bodies of the requests so far.
        keys: values of the header Authorization so far.
    """

    commands: Sequence[str]
    status: int = 200
    delay: float = 0.0
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    address: str = ""

    def answer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The chat completion for one request."""
        messages = body["messages"]
        good = SENTENCE in str(messages[0]["content"])
        first = len(messages) == 1
        commands = self.commands if first and good else ["true\n"] if first else []
        reply = {
            "analysis": "The terminal waits for commands." if first else "The commands have run.",
            "plan": "Run the commands." if first else "Confirm.",
            "commands": [{"keystrokes": keystrokes, "duration": 0.3} for keystrokes in commands],
            "task_complete": not first,
        }
        return {
            "id": f"chatcmpl-{len(self.asked)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(reply)}}
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }


@contextmanager
def scripted_model(commands: Sequence[str], *, status: int = 200, delay: float = 0.0) -> Iterator[ScriptedModel]:
    """Serve a `ScriptedModel` on a free port of loopback; its `address` ends in ``/v1``."""
    model = ScriptedModel(commands, status, delay)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.asked.append(body)
            model.keys.add(self.headers.get("Authorization", ""))
            time.sleep(model.delay)
            if model.status != 200:
                found: Mapping[str, Any] = {"error": {"message": "refused by the script", "type": "refused"}}
            else:
                found = model.answer(body)
            content = json.dumps(found).encode()
            try:
                self.send_response(model.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                return  # the client was ended while it waited

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        model.address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
