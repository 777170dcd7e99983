"""One sentence for a mistake in the arguments, with the nearest name that exists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_INSTEAD = {"ui": "; report writes a page about runs, and attach and show print one"}
"""Remedies for commands of the Trace-Bench prototype."""


def sentence(error: Any) -> str:
    """`error`, typer's error about arguments, as one sentence that ends in where to look."""
    command = error.ctx.command_path if error.ctx else "trace-bench"
    said = " ".join(error.format_message().split()).rstrip(".")
    parameter, message = getattr(error, "param", None), str(getattr(error, "message", ""))
    unknown = getattr(error, "option_name", None)
    if parameter is not None and message.startswith("must be "):
        named = getattr(parameter, "metavar", None) or parameter.opts[0]  # of an argument; an option's is its value's
        name = next((name for name in parameter.opts if name.startswith("--")), named)
        said = f"{name} {message}"
    elif unknown and message.startswith("No such option"):
        said = f"No such option: {unknown}{near_option(unknown, error.ctx)}"
    elif found := re.match(r"No such command '(.*?)'", message):
        said = f"No such command '{found[1]}'{_INSTEAD.get(found[1]) or _near(found[1], _commands(error.ctx))}"
    return f"{said} See {command} --help" if said.endswith("?") else f"{said}; see {command} --help"


def near_option(unknown: str, ctx: Any) -> str:
    """The hint about the option `unknown` of a command: the nearest one, or that a command must come first."""
    known = [name for parameter in ctx.command.params if not getattr(parameter, "hidden", False)
             for name in parameter.opts if name.startswith("--")]  # fmt: skip
    near = _near(unknown, [*known, "--help"])
    return near or ("; options stand behind the command" if _commands(ctx) else "")


def _commands(ctx: Any) -> list[str]:
    """Names of the commands of a group; none of a command."""
    return list(ctx.command.list_commands(ctx)) if hasattr(ctx.command, "list_commands") else []


def _near(unknown: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?`` with the nearest of `known`; empty if none is near.

    A name that holds `unknown` as a word, or begins with it, is nearer than one that is spelt alike.

    >>> _near("--workers", ["--force", "--max-workers"]), _near("--confg", ["--config", "--json"])
    ('; did you mean --max-workers?', '; did you mean --config?')
    """
    from difflib import SequenceMatcher

    plain = unknown.replace("_", "-").lower()
    bare = plain.strip("-")

    def nearness(name: str) -> float:
        other = name.strip("-").lower()
        if bare and (other.startswith(bare) or bare in other.split("-") or other in bare.split("-")):
            return 1 + len(bare) / len(other)
        return SequenceMatcher(None, plain.strip("-"), other).ratio()

    best = max(known, key=nearness, default="")
    if not best or nearness(best) < 0.6:
        return ""
    return f"; did you mean {best}?" if best.startswith("-") else f"; did you mean '{best}'?"
