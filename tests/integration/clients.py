"""An image with unmodified clients of OpenAI's API, and a model behind the gateway that they can all talk to."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_bench.gateway.base import ProviderReply, ProviderRequest
from trace_bench.images.lock import read_lock
from trace_bench.images.wheels import Target, pip_command

# Without its extra mcp, litellm cannot import what it needs for tools and for responses.
PINS = ("openai==2.54.0", "litellm[mcp]==1.106.2", "pip==26.3")
REPOSITORY = "trace-bench-test/clients"
ANSWER = "hello: " + "all of it, in more than one piece. " * 8
WEATHER = {"city": "Paris", "degrees": 21}
DOCKERFILE = """
ARG BASE
FROM ${BASE} AS wheels
COPY wheels /wheels
RUN python3 "$(echo /wheels/pip-*.whl)/pip" install --no-index --find-links /wheels --target /install --quiet \\
    --disable-pip-version-check --root-user-action ignore openai "litellm[mcp]"
FROM ${BASE}
COPY --from=wheels /install /opt/trace-bench/site
"""


def client_image(home: Path) -> tuple[str, str]:
    """Reference and key of the core image of `home` with the clients in it; skips if they cannot be downloaded."""
    lock = read_lock(home)
    core = lock.images["core"]
    base = lock.bases[core.base]
    wheels = _wheels(home, Target(base.python, base.machine, base.glibc))
    key = hashlib.sha256(json.dumps([core.key, core.image_id, PINS, DOCKERFILE]).encode()).hexdigest()
    tag = f"{REPOSITORY}:{key[:12]}"
    if subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False).returncode != 0:
        with tempfile.TemporaryDirectory(dir=home) as folder:
            Path(folder, "Dockerfile").write_text(DOCKERFILE)
            Path(folder, "wheels").mkdir()
            for wheel in wheels.iterdir():
                Path(folder, "wheels", wheel.name).hardlink_to(wheel)
            command = ["docker", "build", "--quiet", "--network", "none", "--build-arg", f"BASE={core.ref}", "-t", tag]
            done = subprocess.run([*command, folder], capture_output=True, text=True, check=False, timeout=580)
            assert done.returncode == 0, done.stderr
    return tag, key


def _wheels(home: Path, target: Target) -> Path:
    """The wheels of `PINS` and all that they need; downloaded once."""
    name = hashlib.sha256(repr((PINS, target)).encode()).hexdigest()[:12]
    folder = home / "client-wheels" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        platforms = [word for tag in target.platforms for word in ("--platform", tag)]
        command = [*pip_command(), "download", "--quiet", "--only-binary=:all:", *platforms,
                   "--python-version", target.python, "--implementation", "cp", "--dest", f"{part}/wheels"]  # fmt: skip
        done = subprocess.run([*command, *PINS], capture_output=True, text=True, check=False, timeout=580)
        if done.returncode != 0:
            pytest.skip(f"the clients cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        Path(part, "wheels").rename(folder)
    return folder


class Clerk:
    """A model of few words. It adds to its answers what providers add, none of which a sandbox is to see.

    Args:
        outsiders: called when the text is ``outsiders``; what it returns is the answer.
    """

    name = "clerk"
    paid = True
    uses_hints = False
    quick = False

    def __init__(self, outsiders: Callable[[], Any] = lambda: None) -> None:
        self.asked: list[ProviderRequest] = []
        self._outsiders = outsiders
        self._given_up = threading.Event()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        self.asked.append(request)
        body = request.body
        secret = {"_hidden_params": {"api_base": "https://secret.example"}, "service_tier": "default",
                  "provider_specific_fields": {"region": "secret"}, "model": "secret-deployment"}  # fmt: skip
        if request.path == "/v1/embeddings":
            return self._embeddings(body, secret)
        if request.path == "/v1/responses":
            return self._responses(body, secret)
        if request.path == "/v1/completions":
            choice = {"index": 0, "text": ANSWER, "logprobs": None, "finish_reason": "stop"}
            answer = {"id": "cmpl-1", "object": "text_completion", "created": 1, "choices": [choice], **secret}
            return ProviderReply(200, {**answer, "usage": _usage()}, 3, 4, 0.001)
        return self._chat(body, secret)

    def _chat(self, body: Any, secret: dict[str, Any]) -> ProviderReply:
        text = body["messages"][-1]["content"]
        message: dict[str, Any] = {"role": "assistant", "content": ANSWER, "refusal": None}
        reason = "stop"
        if text == "too long":
            said = {"message": "too long for https://secret.example/v1", "type": "invalid_request_error", "param": None,
                    "code": "context_length_exceeded", "headers": {"x": "secret"}}  # fmt: skip
            return ProviderReply(400, {"error": said})
        if text == "slow":
            self._given_up.wait(1.0)
        elif text == "outsiders":
            message["content"] = json.dumps(self._outsiders())
        elif body["messages"][-1]["role"] == "tool":
            message["content"] = "It is 21 degrees."
        elif body.get("tools"):
            reason, message["content"] = "tool_calls", None
            message["tool_calls"] = [
                {"id": f"call_{i}", "type": "function",
                 "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
                for i, city in enumerate(["Paris", "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"])
            ]  # fmt: skip
        elif body.get("response_format"):
            message["content"] = json.dumps(WEATHER)
        elif text != "hello":
            message["content"] = f"{text}: yes"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "choices": [choice], **secret}
        return ProviderReply(200, {**answer, "usage": {**_usage(), "cost": 1}}, 3, 4, 0.001)

    def _responses(self, body: Any, secret: dict[str, Any]) -> ProviderReply:
        part = {"type": "output_text", "text": ANSWER, "annotations": []}
        output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
        if body.get("tools"):
            output.append({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
                           "arguments": json.dumps({"city": "Paris"}), "status": "completed"})  # fmt: skip
        else:
            output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                           "content": [part]})  # fmt: skip
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
                 "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
        answer = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "output": output,
                  "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
                  "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
                  "tools": body.get("tools") or [], **secret}  # fmt: skip
        return ProviderReply(200, {**answer, "usage": usage}, 3, 4, 0.001)

    def _embeddings(self, body: Any, secret: dict[str, Any]) -> ProviderReply:
        vector: Any = [0.5, -0.25]
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack("<2f", *vector)).decode()
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i in range(len(inputs))]
        answer = {"object": "list", "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}, **secret}
        return ProviderReply(200, answer, 3, 0, 0.001)


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
