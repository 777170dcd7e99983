"""``llm ls`` and ``llm show``: the LLM calls of a run, and what was said in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import LlmCall, Usage
from trace_bench.artifacts.usage import usage_of
from trace_bench.cli.lookup import jobs_named, manifest_of
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import emit_pairs, emit_table
from trace_bench.display.table import dollars, number
from trace_bench.errors import ConfigError
from trace_bench.records.calls import Part, answered, asked, read_calls
from trace_bench.records.runs import find_run

CLIPPED_LINES = 40
CLIPPED_CHARACTERS = 4000
_HEADER = (
    "job", "n", "phase", "slot", "model", "status", "prompt", "cached", "completion", "reasoning", "usd", "s", "tries",
    "note",
)  # fmt: skip
_NUMERIC = frozenset({"n", "status", "prompt", "cached", "completion", "reasoning", "usd", "s", "tries"})
_ELASTIC = {"slot": 12, "model": 8, "note": 8}
PHASES = ("build", "train", "score")
_SPARE = ("cached", "reasoning", "tries", "s", "phase")


@dataclass(frozen=True)
class _Line:
    """A call, and the job that made it."""

    job_id: str
    call: LlmCall


def list_calls(run: str, job: str | None, runs_dir: Path, *, phase: str | None, failed: bool, as_json: bool) -> None:
    """Print the calls of a run, or of one of its jobs, one a line, and what they come to.

    Args:
        phase: only those of this phase.
        failed: only those that did not end with status 200.

    Raises:
        ConfigError: there is no such run, job or phase. HarnessError: a cassette is damaged.
    """
    if phase is not None and phase not in PHASES:
        raise ConfigError(f"--phase: there is no phase {printable(phase)!r}; known are {', '.join(PHASES)}")
    layout = find_run(run, runs_dir)
    job_ids = _jobs(layout, job)
    lines = [
        line
        for line in _lines(layout, job_ids)
        if (phase is None or line.call.phase == phase) and not (failed and line.call.status == 200)
    ]
    usage = usage_of(line.call for line in lines)
    if as_json:
        emit_json({
            "run_id": layout.run_id,
            "calls": [{"job_id": line.job_id, **_fields(line.call)} for line in lines],
            "totals": usage.model_dump(exclude={"refused"}),
        })  # fmt: skip
        return
    if lines:
        emit_table(_HEADER, [_cells(line) for line in lines], _NUMERIC, elastic=_ELASTIC, spare=_SPARE)
        emit()
    emit(_totals(len(lines), usage))


def show_calls(run: str, job: str, n: int | None, runs_dir: Path, *, full: bool, as_json: bool) -> None:
    """Print what was asked and answered in a job's calls, or in its call number `n`.

    Args:
        full: all of every text.

    Raises:
        ConfigError: there is no such run, job or call. HarnessError: the cassette is damaged.
    """
    layout = find_run(run, runs_dir)
    (job_id,) = _jobs(layout, job)
    calls = list(read_calls(layout.job(job_id).cassette))
    if n is not None and not 1 <= n <= len(calls):
        there = f"its calls are 1 to {len(calls)}" if calls else "it has made no call"
        raise ConfigError(f"job {job_id} has no call {n}; {there}")
    chosen = calls if n is None else [calls[n - 1]]
    if as_json:
        emit_json([_whole(call, calls) for call in chosen])
        return
    if not chosen:
        note(f"job {job_id} has made no call")
    for place, call in enumerate(chosen):
        if place:
            emit()
        _print_call(job_id, call, _source(call, calls), None if full else CLIPPED_LINES)


# ---------------------------------------------------------------------------------------------------------- which calls


def _jobs(layout: RunLayout, job: str | None) -> list[str]:
    chosen = manifest_of(layout).jobs if job is None else jobs_named(layout, [job])
    return [entry.job_id for entry in chosen]


def _lines(layout: RunLayout, job_ids: Iterable[str]) -> Iterable[_Line]:
    for job_id in job_ids:
        for call in read_calls(layout.job(job_id).cassette):
            yield _Line(job_id, call)


def _source(call: LlmCall, calls: Sequence[LlmCall]) -> LlmCall:
    """The line that holds what was said in `call`."""
    while call.reused_from is not None and call.reused_from < call.n <= len(calls):
        call = calls[call.reused_from - 1]
    return call


# ------------------------------------------------------------------------------------------------------------ printing


def _fields(call: LlmCall) -> dict[str, Any]:
    """A call without what was said in it."""
    return call.model_dump(mode="json", exclude={"request", "response", "sent"})


def _whole(call: LlmCall, calls: Sequence[LlmCall]) -> dict[str, Any]:
    source = _source(call, calls)
    said = {"request": source.request.model_dump(mode="json") if source.request else None, "response": source.response}
    return {**call.model_dump(mode="json"), **said}


def _cells(line: _Line) -> tuple[str, ...]:
    call = line.call
    own = call.reused_from is None
    return (
        line.job_id,
        str(call.n),
        printable(call.phase, 20),
        printable(call.slot or "-", 200),
        printable(call.model, 60),
        str(call.status),
        str(call.prompt_tokens) if own else "-",
        str(call.cached_tokens) if own else "-",
        str(call.completion_tokens) if own else "-",
        str(call.reasoning_tokens) if own else "-",
        number(call.cost_usd) if own else "-",
        number(call.latency, 2) if own else "-",
        str(len(call.tries)) if own else "-",
        _note(call),
    )


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
        words.append(printable(" ".join(answered(call.response)[0].text.split()), 200))
    return ", ".join(words)


def _totals(number_of_lines: int, usage: Usage) -> str:
    parts = [
        f"{number_of_lines} lines: {usage.calls} calls in {usage.tries} tries",
        f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached)",
        f"{usage.completion_tokens} completion tokens ({usage.reasoning_tokens} reasoning)",
        f"{dollars(usage.cost_usd)} USD",
    ]
    parts += [f"{usage.reused} answered by the cassette"] if usage.reused else []
    parts += [f"{usage.cached} by the response cache"] if usage.cached else []
    return ", ".join(parts)


def _print_call(job_id: str, call: LlmCall, source: LlmCall, lines: int | None) -> None:
    emit_pairs([
        ("call", f"{call.n} of job {job_id}, attempt {call.attempt}, {printable(call.request_id, 200)}"),
        ("time", call.t),
        ("phase", printable(call.phase, 200)),
        ("slot", printable(call.slot or "", 200)),
        ("model", f"{printable(call.model, 200)} ({printable(call.provider, 60)})"),
        ("status", f"{call.status}, {call.latency:.2f} s"),
        ("tokens", "" if call.reused_from is not None else
         f"{call.prompt_tokens} prompt ({call.cached_tokens} cached), {call.completion_tokens} completion "
         f"({call.reasoning_tokens} reasoning), {call.cost_usd:.6f} USD"),
        ("note", _note(call)),
        *_tries(call),
        *_settings(source),
    ])  # fmt: skip
    if source.request is not None:
        emit(f"\n→ {source.request.method} {printable(source.request.path, 200)}")
        _print_parts(asked(source.request.body), lines)
    emit(f"\n← {source.status}")
    _print_parts(answered(source.response), lines)


def _tries(call: LlmCall) -> list[tuple[str, str]]:
    if len(call.tries) < 2 and not any(one.error for one in call.tries):
        return []
    said = [
        f"{'no answer' if one.status is None else one.status} after {one.seconds:.2f} s"
        + (f", {one.waited:.2f} s later than could be" if one.waited else "")
        + (f": {printable(one.error, 200)}" if one.error else "")
        for one in call.tries
    ]
    return [("tries" if place == 0 else " ", text) for place, text in enumerate(said)]


def _settings(call: LlmCall) -> list[tuple[str, str]]:
    """What the request says beside its messages, and what the gateway added."""
    body: Mapping[str, Any] = call.request.body if call.request is not None else {}
    left_out = ("messages", "input", "prompt", "instructions", "tools", "model")
    given = {key: value for key, value in body.items() if key not in left_out}
    return [
        (name, ", ".join(f"{printable(key, 60)}={printable(str(value), 100)}" for key, value in values.items()))
        for name, values in (("request", given), ("sent", call.sent))
    ]


def _print_parts(parts: Sequence[Part], lines: int | None) -> None:
    for part in parts:
        emit(f"[{printable(part.who, 40)}]")
        text = part.text if lines is None else part.text[:CLIPPED_CHARACTERS]
        shown = text.split("\n") if lines is None else text.split("\n")[:lines]
        for line in shown:
            emit("  " + "\t".join(printable(piece, 10 * len(piece) + 10) for piece in line.split("\t")))
        left = len(part.text) - len("\n".join(shown))
        if left > 0:
            emit(f"  … {left} more characters; --full shows them")
