"""Prompts that searches start from, and the check of one. Standard library only: sandboxes and the host have it."""

from __future__ import annotations

import string

FIELDS = ("instruction", "terminal_state")
DEFAULT = """\
You work on a Linux computer through a terminal. You see what it shows, and you send it keys.

The task:
{instruction}

Answer with one JSON object and nothing else:

{{
  "analysis": "what the terminal shows, and what is done already",
  "plan": "what you do next",
  "commands": [
    {{"keystrokes": "ls -la\\n", "duration": 0.5}}
  ],
  "task_complete": false
}}

"keystrokes" are typed as they are, so a command ends with \\n. "duration" is the number of seconds to wait before you
see the terminal again. "commands" may be empty. Set "task_complete" to true once the task is done.

What the terminal shows:
{terminal_state}
"""
"""Made for the parser of Terminus-2, whose answers are JSON."""
_LAST = "What the terminal shows:\n"
_ADVICE = (
    "Look at the files before you change them.\n\n",
    'Before you set "task_complete" to true, check the result with a command, and read the task once more.\n\n',
)
TEMPLATES = tuple(DEFAULT.replace(_LAST, advice + _LAST) for advice in (*_ADVICE, "".join(_ADVICE)))
PREFIXES = ("", *_ADVICE, "".join(_ADVICE))


def check_template(template: str) -> None:
    """Refuse a prompt template that Terminus-2 cannot fill, or that would hide the task or the terminal.

    A template is a `str.format` string. Its fields are ``{instruction}`` and ``{terminal_state}``, both of them,
    without formats or attributes. Any other brace is doubled.

    Raises:
        ValueError: it is not; the message is one sentence.

    >>> check_template("Do this: {instruction} {{}} {terminal_state}")
    >>> check_template("Do this: {instruction}")
    Traceback (most recent call last):
    ValueError: the template has no {terminal_state}; write it where the text belongs
    """
    remedy = "only {instruction} and {terminal_state} can be filled; double any other brace"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"the template is not a format string ({error}); {remedy}") from error
    for _, name, layout, conversion in parts:
        if name is not None and (name not in FIELDS or layout or conversion):
            raise ValueError(f"the template has the field {{{name[:40]}}}; {remedy}")
    for field in FIELDS:
        if field not in (name for _, name, _, _ in parts):
            raise ValueError(f"the template has no {{{field}}}; write it where the text belongs")
