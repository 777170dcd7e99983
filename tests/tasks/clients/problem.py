"""Prints, from the train and the score phase, what unmodified clients of OpenAI's API get through the relay.

The clients are what fixed agent code would use. Nothing tells them where the gateway is but the environment.
"""

import asyncio
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from trace_bench.worker.problem import Parameter, Problem, examples

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
FLAT_TOOLS = [{"type": "function", **TOOLS[0]["function"]}]


def user(text):
    return [{"role": "user", "content": text}]


def calls_of(message):
    return [[c.id, c.function.name, json.loads(c.function.arguments)] for c in message.tool_calls or []]


def joined(stream):
    """A chat stream put together: text, number of pieces of it, tool calls, reason, usage."""
    text, calls, reason, usage = [], {}, None, None
    for chunk in stream:
        usage = getattr(chunk, "usage", None) or usage
        for choice in chunk.choices:
            text += [choice.delta.content] if choice.delta.content else []
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                known = calls.setdefault(call.index, ["", "", ""])
                known[0] += call.id or ""
                known[1] += call.function.name or ""
                known[2] += call.function.arguments or ""
    found = [[number, name, json.loads(given)] for number, name, given in calls.values()]
    return {"text": "".join(text), "pieces": len(text), "calls": found, "reason": reason,
            "tokens": usage.total_tokens if usage else None}  # fmt: skip


class WithOpenai:
    def __init__(self):
        import openai

        self.openai = openai
        self.client = openai.OpenAI(max_retries=0, timeout=60)
        self.model = os.environ["TRACE_BENCH_MODEL"]

    def ask(self, text, **more):
        return self.client.chat.completions.create(model=self.model, messages=user(text), **more)

    def chat(self):
        answer = self.ask("hello", temperature=0.5, max_tokens=50, user="me", metadata={"a": "b"})
        return {"text": answer.choices[0].message.content, "model": answer.model, "tokens": answer.usage.total_tokens,
                "whole": answer.to_dict()}  # fmt: skip

    def chat_streamed(self):
        return joined(self.ask("hello", stream=True))

    def chat_streamed_with_usage(self):
        return joined(self.ask("hello", stream=True, stream_options={"include_usage": True}))

    def tools(self):
        answer = self.ask("weather", tools=TOOLS, parallel_tool_calls=True)
        message = answer.choices[0].message
        told = [
            {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"} for call in message.tool_calls
        ]  # fmt: skip
        then = self.client.chat.completions.create(
            model=self.model, messages=[*user("weather"), message, *told], tools=TOOLS
        )
        return {"calls": calls_of(message), "reason": answer.choices[0].finish_reason,
                "then": then.choices[0].message.content}  # fmt: skip

    def tools_streamed(self):
        return joined(self.ask("weather", tools=TOOLS, stream=True))

    def stream_helper(self):
        with self.client.chat.completions.stream(model=self.model, messages=user("hello")) as stream:
            kinds = {event.type for event in stream}
            return {"text": stream.get_final_completion().choices[0].message.content, "kinds": sorted(kinds)}

    def json_mode(self):
        return json.loads(self.ask("json", response_format={"type": "json_object"}).choices[0].message.content)

    def json_schema(self):
        from pydantic import BaseModel

        class Weather(BaseModel):
            city: str
            degrees: int

        answer = self.client.chat.completions.parse(
            model=self.model, messages=user("json"), response_format=Weather
        )  # fmt: skip
        return answer.choices[0].message.parsed.model_dump()

    def embeddings(self):
        answer = self.client.embeddings.create(model=self.model, input=["one", "two"])
        plain = self.client.embeddings.create(model=self.model, input="one", encoding_format="float")
        return [len(answer.data), answer.data[0].embedding, plain.data[0].embedding]

    def completions(self):
        return self.client.completions.create(model=self.model, prompt="hello").choices[0].text

    def completions_streamed(self):
        chunks = list(self.client.completions.create(model=self.model, prompt="hello", stream=True))
        texts = [c.choices[0].text for c in chunks if c.choices[0].text]
        return {"text": "".join(texts), "pieces": len(texts), "reason": chunks[-1].choices[0].finish_reason}

    def responses(self):
        answer = self.client.responses.create(model=self.model, input="hello", instructions="be short")
        return {"text": answer.output_text, "status": answer.status, "tokens": answer.usage.total_tokens}

    def responses_streamed(self):
        pieces, kinds, numbers, last = [], [], [], None
        for event in self.client.responses.create(model=self.model, input="hello", stream=True):
            kinds.append(event.type)
            numbers.append(event.sequence_number)
            pieces += [event.delta] if event.type == "response.output_text.delta" else []
            last = event
        return {"text": "".join(pieces), "pieces": len(pieces), "ordered": numbers == list(range(len(kinds))),
                "first": kinds[0], "last": kinds[-1], "whole": last.response.output_text}  # fmt: skip

    def responses_tools(self):
        with self.client.responses.stream(model=self.model, input="weather", tools=FLAT_TOOLS) as stream:
            deltas = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
            final = stream.get_final_response()
        (call,) = [item for item in final.output if item.type == "function_call"]
        return {"deltas": json.loads(deltas), "name": call.name, "given": json.loads(call.arguments)}

    def models(self):
        return [[m.id for m in self.client.models.list()], self.client.models.retrieve(self.model).id]

    def parallel(self):
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda i: self.ask(f"number {i}").choices[0].message.content, range(8))
            return [answer.split(":")[0] for answer in answers]

    def asynchronous(self):
        async def ask():
            async with self.openai.AsyncOpenAI(max_retries=0, timeout=60) as client:
                whole = [
                    client.chat.completions.create(model=self.model, messages=user(f"async {i}")) for i in range(8)
                ]
                first = [a.choices[0].message.content.split(":")[0] for a in await asyncio.gather(*whole)]
                text = ""
                async for chunk in await client.chat.completions.create(
                    model=self.model, messages=user("hello"), stream=True
                ):
                    text += chunk.choices[0].delta.content or ""
                return [first, text]

        return asyncio.run(ask())

    def patience(self):
        """A client that gives up goes on with its next call."""
        try:
            self.ask("slow", timeout=0.2)
        except self.openai.APITimeoutError:
            return self.ask("after").choices[0].message.content.split(":")[0]
        return "it did not give up"

    def refusals(self):
        found = {}
        for name, call in {
            "another model": lambda: self.client.chat.completions.create(model="gpt-9", messages=user("x")),
            "key": lambda: self.ask("x", extra_body={"api_key": "sk-1", "api_base": "http://192.0.2.1/v1"}),
            "hosted tool": lambda: self.client.responses.create(
                model=self.model, input="x", tools=[{"type": "web_search"}]
            ),
            "stored": lambda: self.client.responses.create(model=self.model, input="x", previous_response_id="resp_1"),
            "picture": lambda: self.client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y"}}]}],
            ),
            "other phase": lambda: self.ask("x", extra_headers={"X-Trace-Bench-Phase": "score"}),
            "files": lambda: self.client.files.list(),
            "refused upstream": lambda: self.ask("too long", stream=True),
        }.items():
            try:
                call()
                found[name] = "it was served"
            except self.openai.APIStatusError as error:
                found[name] = [type(error).__name__, error.status_code, error.code]
        return found

    def outsiders(self):
        """The test looks in from outside, as another uid, while this waits."""
        return json.loads(self.ask("outsiders").choices[0].message.content)


class WithLitellm:
    def __init__(self):
        import litellm

        self.litellm = litellm
        self.model = "openai/" + os.environ["TRACE_BENCH_MODEL"]

    def ask(self, text, **more):
        return self.litellm.completion(model=self.model, messages=user(text), num_retries=0, timeout=60, **more)

    def chat(self):
        answer = self.ask("hello", temperature=0.5, user="me")
        return {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens}

    def chat_streamed(self):
        return joined(self.ask("hello", stream=True, stream_options={"include_usage": True}))

    def tools(self):
        return calls_of(self.ask("weather", tools=TOOLS).choices[0].message)

    def tools_streamed(self):
        return joined(self.ask("weather", tools=TOOLS, stream=True))

    def json_mode(self):
        return json.loads(self.ask("json", response_format={"type": "json_object"}).choices[0].message.content)

    def embeddings(self):
        answer = self.litellm.embedding(model=self.model, input=["one", "two"])
        return [len(answer.data), answer.data[0]["embedding"]]

    def completions(self):
        answer = self.litellm.text_completion(model="text-completion-" + self.model, prompt="hello")
        return answer.choices[0].text

    def responses(self):
        answer = self.litellm.responses(model=self.model, input="hello")
        return answer.output[-1].content[0].text

    def responses_streamed(self):
        events = list(self.litellm.responses(model=self.model, input="hello", stream=True))
        deltas = [e.delta for e in events if str(e.type.value) == "response.output_text.delta"]
        return {"text": "".join(deltas), "pieces": len(deltas), "last": str(events[-1].type.value)}

    def parallel(self):
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda i: self.ask(f"number {i}").choices[0].message.content, range(8))
            return [answer.split(":")[0] for answer in answers]

    def asynchronous(self):
        async def ask():
            answers = [
                self.litellm.acompletion(model=self.model, messages=user(f"async {i}"), timeout=60) for i in range(8)
            ]
            return [a.choices[0].message.content.split(":")[0] for a in await asyncio.gather(*answers)]

        return asyncio.run(ask())


def report(phase):
    for kind in (WithOpenai, WithLitellm):
        clients = kind()
        checks = [name for name in vars(kind) if not name.startswith("_") and name != "ask"]
        for name in checks:
            began = time.monotonic()
            try:
                got = getattr(clients, name)()
            except Exception as error:
                got = f"{type(error).__name__}: {error}"[:2000]
            line = {"phase": phase, "client": kind.__name__, "check": name, "got": got,
                    "seconds": round(time.monotonic() - began, 2), "threads": threading.active_count()}  # fmt: skip
            print("CLIENTS", json.dumps(line), flush=True)


def build(context):
    def guide(query, response, reference):
        # uid 0 would be no sandbox.
        report({1: "train", 2: "score"}[os.getuid() % 16])
        return 1.0, ""

    return Problem(
        parameters=(Parameter("x", 0.0, "float"),),
        guide=guide,
        train=examples(["only"]),
        objective="Look.",
        direction="maximize",
        failure_score=-100.0,
    )
