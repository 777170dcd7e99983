"""What a sandbox may hand back where a text is expected: each acts on something if it is passed on as it is.

`FORGED` begins a line that only a line break inside a text could have begun.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

FORGED = "forged-line"

TEXTS: dict[str, str] = {
    # orders to a terminal
    "clear the screen": "\x1b[2J\x1b[Hgone",
    "write over the line above": "\x1b[1A\x1b[2Kok",
    "a link to elsewhere (OSC 8)": "\x1b]8;;http://evil.example\x1b\\docs\x1b]8;;\x1b\\",
    "into the clipboard (OSC 52)": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "the window's title": "\x1b]0;title\x07",
    "answer back": "\x1b[c\x1b[6n\x05",
    "a device control string": "\x1bP+q544e\x1b\\",
    "8-bit control sequence": "\x9b2J\x9b31m",
    "8-bit operating system command": "\x9d0;title\x9c",
    "8-bit device control": "\x90q\x9c",
    "lost colour": "\x1b[31;5mred",
    "the other character set": "\x0e\x1b(0qqq",
    "bell and backspaces": "\x07fail\b\b\b\bok  ",
    "null and delete": "a\x00b\x7fc",
    # other lines than ours
    "a line break": f"x\n{FORGED} ok",
    "carriage return": f"failed\r{FORGED} ok",
    "both": f"x\r\n{FORGED}",
    "vertical tab and form feed": f"x\x0b{FORGED}\x0c{FORGED}",
    "next line": f"x\x85{FORGED}",
    "line and paragraph separators": f"x\u2028{FORGED}\u2029{FORGED}",
    "file separators": f"x\x1c{FORGED}\x1d{FORGED}\x1e{FORGED}",
    "only white space": " \t\n\r ",
    # what is not seen, or seen elsewhere
    "turned around": "ok \u202edeliaf\u202c",
    "isolates": "\u2067abc\u2066def\u2069",
    "arabic letter mark": "\u061ca\u200eb\u200f",
    "without width": "f\u200ba\u200cl\u200ds\u2060e",
    "byte order mark": "\ufeff=1+1",
    "soft hyphens": "fal\xadse",
    "tags": "a\U000e0041\U000e007fb",
    "interlinear": "a\ufff9b\ufffac\ufffb",
    "accents upon accents": "e" + "\u0301" * 50,
    "no break": "a\xa0b\u3000c",
    # markup of whoever shows it
    "script": "<script>alert(1)</script>",
    "an image": '"><img src=x onerror=alert(1)>',
    "a style": "[red]x[/red][bold]y",
    "a link in markup": "[link=http://evil.example]x[/link]",
    "markup that ends nothing": "[/red] [/]",
    "an emoji's name": ":warning: :smile:",
    "a format": "%s %d %n {0} {x!r} ${HOME} $(id)",
    # formulas
    "a formula": "=1+1",
    "a program": "=cmd|' /C calc'!A0",
    "plus": "+1+1|cmd",
    "minus": "-2+3",
    "at": "@SUM(1+1)",
    "after a tab": "\t=1+1",
    "after blanks": "  =1+1",
    "after a quote": '"=1+1',
    "after a semicolon": "a;=1+1",
    "after a semicolon and a blank": "a; @SUM(1)",
    "wide": "\uff1d1+1",
    "no number": "-1_000",
    "infinity": "-inf",
    # the sizes of things
    "long": "x" * 20_000,
    "wide letters": "日本語" * 200,
    "nothing": "",
}


def poisoned(model: type[BaseModel], document: Any, text: str, *, keep: frozenset[str] = frozenset()) -> Any:
    """`document` with `text` in place of every text that `model` lets be any, but for keys in `keep`."""
    whole = document
    for path in _texts(document, keep):
        changed = _replaced(whole, path, text)
        try:
            model.model_validate(changed)
        except ValidationError:
            continue
        whole = changed
    return whole


def _texts(value: Any, keep: frozenset[str], before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, str):
        return [before]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items if key not in keep for path in _texts(item, keep, (*before, key))]


def _replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_replaced(item, rest, text) if place == head else item for place, item in enumerate(value)]
    return {key: _replaced(item, rest, text) if key == head else item for key, item in value.items()}
