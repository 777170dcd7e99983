"""Tables and texts of LLM calls, for ``llm ls`` and ``llm show``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trace_bench.artifacts.calls import LlmCall, Usage
from trace_bench.artifacts.usage import dollars_of, tokens_of
from trace_bench.display.console import emit, emit_block, emit_pairs
from trace_bench.display.table import Column, Table, dollars, number
from trace_bench.display.text import escape_tabbed, quoted
from trace_bench.records.calls import Part, answered, asked

CLIPPED_LINES = 40
CLIPPED_CHARACTERS = 4000


def source_of(call: LlmCall, calls: Sequence[LlmCall]) -> LlmCall:
    """The line of `calls` that holds the texts of `call`."""
    while call.reused_from is not None and call.reused_from < call.n <= len(calls):
        call = calls[call.reused_from - 1]
    return call


def without_texts(call: LlmCall) -> dict[str, Any]:
    """The JSON of a call without its texts."""
    return call.model_dump(mode="json", exclude={"request", "response", "sent"})


def with_texts(call: LlmCall, calls: Sequence[LlmCall]) -> dict[str, Any]:
    """The JSON of `call`, a line of `calls`, with its texts."""
    source = source_of(call, calls)
    request = source.request.model_dump(mode="json") if source.request else None
    return {**call.model_dump(mode="json"), "request": request, "response": source.response}


def calls_table(calls: Iterable[tuple[str, LlmCall]]) -> Table:
    """A row for each call, which has the id of its job before it."""
    columns = (
        Column("job"),
        Column("n", right=True),
        Column("phase", limit=20),
        Column("slot"),
        Column("model", limit=60),
        *(Column(name, right=True) for name in ("status", "prompt", "cached", "completion", "reasoning", "usd")),
        Column("s", right=True),
        Column("tries", right=True),
        Column("note", limit=300),
    )
    rows = []
    for job_id, call in calls:
        prompt, completion = tokens_of(call)
        usage: tuple[Any, ...] = (
            prompt,
            call.cached_tokens,
            completion,
            call.reasoning_tokens,
            number(float(dollars_of(call))),
            number(call.latency, 2),
            len(call.tries),
        )
        own = usage if call.reused_from is None else (None,) * len(usage)
        rows.append((job_id, call.n, call.phase, call.slot, call.model, call.status, *own, _note(call)))
    shrink = {"slot": 12, "model": 8, "note": 8}
    return Table.of(columns, rows, shrink=shrink, drop=("cached", "reasoning", "tries", "s", "phase"))


def _note(call: LlmCall) -> str:
    words = []
    if call.reused_from is not None:
        words.append(f"answered by {call.reused_from}")
    if call.cached:
        words.append("from the response cache")
    if call.inert:
        words.append("inert")
    if call.estimated:
        words.append("tokens estimated")
    if call.status != 200 and call.reused_from is None:
        words.append(quoted(" ".join(answered(call.response)[0].text.split()), 200))
    return ", ".join(words)


def totals_sentence(lines: int, usage: Usage) -> str:
    """The totals of the calls in `lines`."""
    parts = [
        f"{lines} lines: {usage.calls} calls in {usage.tries} tries",
        f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached)",
        f"{usage.completion_tokens} completion tokens ({usage.reasoning_tokens} reasoning)",
        f"{dollars(usage.cost_usd)} USD",
    ]
    parts += [f"{usage.reused} answered by the cassette"] if usage.reused else []
    parts += [f"{usage.cached} by the response cache"] if usage.cached else []
    return ", ".join(parts)


def print_call(job_id: str, call: LlmCall, calls: Sequence[LlmCall], *, full: bool) -> None:
    """Print `call`, a line of `calls`, with its texts; `full`: print them completely."""
    source, lines = source_of(call, calls), None if full else CLIPPED_LINES
    emit_pairs([
        ("call", f"{call.n} of job {job_id}, attempt {call.attempt}, {call.request_id}"),
        ("time", call.t),
        ("phase", call.phase),
        ("slot", call.slot or ""),
        ("model", f"{call.model} ({call.provider})"),
        ("status", f"{call.status}, {call.latency:.2f} s"),
        ("tokens", "" if call.reused_from is not None else
         f"{call.prompt_tokens} prompt ({call.cached_tokens} cached), {call.completion_tokens} completion "
         f"({call.reasoning_tokens} reasoning), {call.cost_usd:.6f} USD"),
        ("note", _note(call)),
        ("tries", _tries(call)),
        *_settings(source),
    ])  # fmt: skip
    if source.request is not None:
        emit()
        emit(f"→ {source.request.method} {source.request.path}")
        _print_parts(asked(source.request.body), lines)
    emit_block(f"\n← {source.status}")
    _print_parts(answered(source.response), lines)


def _tries(call: LlmCall) -> list[str]:
    if len(call.tries) < 2 and not any(one.error for one in call.tries):
        return []
    return [
        f"{'no answer' if one.status is None else one.status} after {one.seconds:.2f} s"
        + (f", delayed by {one.waited:.2f} s" if one.waited else "")
        + (f": {one.error}" if one.error else "")
        + (f" ({one.prompt_tokens} prompt and {one.completion_tokens} completion tokens)" if one.prompt_tokens else "")
        for one in call.tries
    ]


def _settings(call: LlmCall) -> list[tuple[str, str]]:
    """The fields of the request beside its messages, and those that the gateway added."""
    body: Mapping[str, Any] = call.request.body if call.request is not None else {}
    left_out = ("messages", "input", "prompt", "instructions", "tools", "model")
    request = {key: value for key, value in body.items() if key not in left_out}
    return [
        (name, ", ".join(f"{key}={value}" for key, value in values.items()))
        for name, values in (("request", request), ("sent", call.sent))
    ]


def _print_parts(parts: Sequence[Part], lines: int | None) -> None:
    for part in parts:
        emit(f"[{part.who}]")
        text = part.text if lines is None else part.text[:CLIPPED_CHARACTERS]
        first = text.split("\n")[:lines]
        for line in first:
            emit_block(f"  {escape_tabbed(line)}")
        more = len(part.text) - len("\n".join(first))
        if more > 0:
            emit(f"  … {more} more characters; --full shows them")
