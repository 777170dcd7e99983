"""Looks at the text of a Lean file before Lean does, and refuses what no honest translation needs.

A file can run code while it is elaborated, change the language, or change what compiled code does. Such words are
refused here, each with a sentence. What they would do to the compiled file is looked for there again (`audit`), and
each of the two finds what the other cannot: some commands leave no trace in the file, and some tricks need no special
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PREFIX = "TraceBench"
"""Namespace of what the harness appends."""

_LANGUAGE = "it changes the language in which tests and theorems are stated; define functions and use them by name"
_AT_COMPILE_TIME = "it runs code while the file is compiled; a translation needs none"
_COMPILED = "it lets compiled code differ from what is proved; write the definition itself"
REFUSED: dict[str, str] = {
    "axiom": "an axiom proves anything; prove the statement, or leave 'sorry' in its place",
    "opaque": "nothing can be proved or tested about an opaque constant; use 'def'",
    "partial": "nothing can be proved about a partial definition; use a 'def' that Lean sees to terminate",
    "unsafe": "unsafe code can break what the kernel has checked; use a plain 'def'",
    "macro": _LANGUAGE,
    "macro_rules": _LANGUAGE,
    "notation": _LANGUAGE,
    "notation3": _LANGUAGE,
    "infix": _LANGUAGE,
    "infixl": _LANGUAGE,
    "infixr": _LANGUAGE,
    "prefix": _LANGUAGE,
    "postfix": _LANGUAGE,
    "syntax": _LANGUAGE,
    "declare_syntax_cat": _LANGUAGE,
    "elab": _LANGUAGE,
    "elab_rules": _LANGUAGE,
    "unif_hint": _LANGUAGE,
    "unification_hint": _LANGUAGE,
    "app_unexpander": _LANGUAGE,
    "simproc": _AT_COMPILE_TIME,
    "simproc_decl": _AT_COMPILE_TIME,
    "dsimproc": _AT_COMPILE_TIME,
    "dsimproc_decl": _AT_COMPILE_TIME,
    "builtin_simproc": _AT_COMPILE_TIME,
    "initialize": _AT_COMPILE_TIME,
    "builtin_initialize": _AT_COMPILE_TIME,
    "run_cmd": _AT_COMPILE_TIME,
    "run_elab": _AT_COMPILE_TIME,
    "run_meta": _AT_COMPILE_TIME,
    "run_tac": _AT_COMPILE_TIME,
    "run_conv": _AT_COMPILE_TIME,
    "by_elab": _AT_COMPILE_TIME,
    "meta": _AT_COMPILE_TIME,
    "include_str": "it reads a file; write the text itself",
    "prelude": "it takes away what tests need; leave it out",
}  # fmt: skip
ATTRIBUTES: dict[str, str] = {
    "implemented_by": _COMPILED,
    "extern": _COMPILED,
    "csimp": _COMPILED,
    "export": _COMPILED,
    "init": _AT_COMPILE_TIME,
    "builtin_init": _AT_COMPILE_TIME,
}
"""What may be no attribute; some of these words are usual names."""
COMMANDS = frozenset({"#check", "#print", "#check_failure"})
"""Commands with a number sign that may stand in a file. Others run code, or end the file."""
OPTIONS = re.compile(r"maxRecDepth|maxHeartbeats|synthInstance\.max(Heartbeats|Size)|autoImplicit|relaxedAutoImplicit"
                     r"|linter\.[\w.]+|pp\.[\w.]+|trace\.[\w.]+|tactic\.hygienic|grind\.[\w.]+")  # fmt: skip
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*)
    | (?P<block>/-)
    | (?P<raw>r(?P<hashes>\#*)"(?s:.*?)"(?P=hashes))
    | (?P<interpolated>\b[sfm]!"(?:[^"\\]|\\(?s:.))*")
    | (?P<text>"(?:[^"\\]|\\(?s:.))*")
    | (?P<quote>")
    | (?P<letter>(?<![\w'!?»])'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.))')
    | (?P<command>\#[A-Za-z_]\w*!?)
    | (?P<word>(?:«[^»\n]*»|[^\W\d][\w'!?]*)(?:\.(?:«[^»\n]*»|[\w][\w'!?]*))*)
    """,
    re.VERBOSE,
)
_EDGE = re.compile(r"/-|-/")


class Refusal(NamedTuple):
    """Why a file is not compiled, and where."""

    line: int
    reason: str


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def refusal(source: str, imports: frozenset[str] = frozenset({"Init"})) -> Refusal | None:
    """The first thing in `source` that no candidate may have; None if there is nothing.

    Args:
        imports: modules that it may import; of a package (``Mathlib``), all of its modules.
    """
    option = imported = False
    for token in _tokens(source):
        line = source.count("\n", 0, token.at) + 1
        if token.kind == "open":
            return Refusal(line, f"{token.text} is not closed, and what follows the file would be part of it")
        if token.kind == "command":
            if token.text not in COMMANDS:
                return Refusal(line, f"{token.text}: {_AT_COMPILE_TIME}")
            continue
        word = token.text.replace("«", "").replace("»", "")
        if option:
            option = False
            if not OPTIONS.fullmatch(word):
                return Refusal(line, f"set_option {word} may change what is checked; leave it out")
            continue
        if imported and word not in ("all", "runtime"):
            imported = False
            if word not in imports and word.partition(".")[0] not in imports:
                known = ", ".join(sorted(imports))
                return Refusal(line, f"import {word}: a file may import nothing but {known}")
            continue
        if word == "import":
            imported = True
        elif word == "set_option":
            option = True
        elif PREFIX in word.split("."):
            return Refusal(line, f"{PREFIX} is the namespace of the tests; call it something else")
        elif reason := REFUSED.get(word) or (_in_attribute(source, token.at) and ATTRIBUTES.get(word)):
            return Refusal(line, f"'{word}': {reason}")
    return None


def _in_attribute(source: str, at: int) -> bool:
    """Whether what stands there is in the brackets of ``@[…]`` or ``attribute […]``."""
    bracket = source.rfind("[", 0, at)
    if bracket < 0 or "]" in source[bracket:at]:
        return False
    return source[:bracket].rstrip().endswith(("@", "attribute"))


def _tokens(source: str) -> Iterator[_Token]:
    """Words and commands outside of comments and texts, also those within interpolated texts."""
    at = 0
    while match := _TOKEN.search(source, at):
        kind = match.lastgroup if match.lastgroup != "hashes" else "raw"
        at = match.end()
        if kind == "block":
            depth = 1
            while depth:
                edge = _EDGE.search(source, at)
                if edge is None:
                    yield _Token("open", "a comment", match.start())
                    return
                depth += 1 if edge[0] == "/-" else -1
                at = edge.end()
        elif kind == "quote":
            yield _Token("open", "a text in quotes", match.start())
            return
        elif kind == "interpolated":
            at = match.start() + 3
            for inner in re.finditer(_TOKEN.pattern, match[0][3:-1], re.VERBOSE):
                if inner.lastgroup in ("word", "command"):
                    yield _Token(inner.lastgroup, inner[0], at + inner.start())
            at = match.end()
        elif kind in ("word", "command"):
            yield _Token(kind, match[0], match.start())
