"""Masks the secrets that this process knows, by value, in everything that a run writes or says.

A process has one environment, and so one collection of `known` secrets: writers, the collector and the console all
ask it. While nothing is known, masking costs nothing. After that it costs a search per secret.

A secret is at least `SHORTEST` characters long and no plain number, so that no count is ever masked. It is found in
UTF-8, as JSON escapes it (once, and as text inside of JSON), percent-encoded, and with quotes doubled as in CSV.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import AnyStr, Generic

MASK = "***"
SHORTEST = 8
"""Characters. What is shorter would be found in what it has nothing to do with."""
# Whole words of a name: MAX_TOKENS is a number of tokens, HF_TOKEN is a secret.
_SECRET_NAME = re.compile(
    r"(^|_)(KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE)(_|$)", re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?[\d._,]+(e[+-]?\d+)?", re.IGNORECASE)
_ORDINARY = frozenset(("disabled", "enabled", "required", "optional", "password", "internal", "default", "undefined"))


def is_secret_name(name: str) -> bool:
    """Whether a variable of that name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret(value: str) -> bool:
    """Whether `value` differs from ordinary text."""
    text = value.strip()
    if len(text) < SHORTEST or _NUMBER.fullmatch(text) or text.lower() in _ORDINARY:
        return False
    return not (text.startswith("/") and Path(text).exists())  # SSH_AUTH_SOCK is a place


def secrets_in(variables: Mapping[str, str]) -> frozenset[str]:
    """The values of `variables` whose names say that they are secret."""
    return frozenset(value for name, value in variables.items() if is_secret_name(name) and is_secret(value))


class Secrets:
    """A growing collection of secrets. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._texts: tuple[str, ...] = ()
        self._bytes: tuple[bytes, ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """Mask `values` from now on, as far as they differ from ordinary text."""
        with self._lock:
            new = {value.strip() for value in values if is_secret(value)} - self._values
            if not new:
                return
            self._values |= new
            forms = {form for value in self._values for form in _forms(value)}
            self._texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
            self._bytes = tuple(form.encode("utf-8", "surrogateescape") for form in self._texts)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._values, self._texts, self._bytes = set(), (), ()

    def text(self, text: str) -> str:
        """`text` with every secret in it masked."""
        return _masked(text, self._texts)

    def data(self, data: bytes) -> bytes:
        return _masked(data, self._bytes)

    def holds(self, text: str) -> bool:
        """Whether there is a secret in `text`."""
        return any(form in text for form in self._texts)

    def value(self, value: object) -> object:
        """JSON data with every secret in its texts and keys masked."""
        if not self._texts:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def text_masker(self) -> Masker[str]:
        return Masker(self._texts, "")

    def data_masker(self) -> Masker[bytes]:
        return Masker(self._bytes, b"")


class Masker(Generic[AnyStr]):
    """Masks what comes in pieces, also a secret that two of them share: the beginning of one is held back.

    >>> masker = Masker(("verysecret",), "")
    >>> masker.feed("it is verys") + masker.feed("ecret, they say") + masker.rest()
    'it is ***, they say'
    """

    def __init__(self, forms: tuple[AnyStr, ...], empty: AnyStr) -> None:
        self._forms: tuple[AnyStr, ...] = forms
        self._empty: AnyStr = empty
        self._held: AnyStr = empty

    def feed(self, piece: AnyStr) -> AnyStr:
        """The part of the text that can be passed on now."""
        if not self._forms:
            return piece
        seen = self._held + piece
        cut = len(seen) - max(_begun(seen, form) for form in self._forms)
        for form in self._forms:
            # One that lies across the cut stays whole.
            at = seen.find(form, max(0, cut - len(form) + 1))
            while 0 <= at < cut:
                if at + len(form) > cut:
                    cut = at
                at = seen.find(form, at + 1)
        self._held = seen[cut:]
        return _masked(seen[:cut], self._forms)

    def rest(self) -> AnyStr:
        """The rest that was held back, at the end of the text."""
        held, self._held = self._held, self._empty
        return _masked(held, self._forms)


def _begun(seen: AnyStr, form: AnyStr) -> int:
    """How much of the end of `seen` may be the beginning of `form`."""
    return next((n for n in range(min(len(form) - 1, len(seen)), 0, -1) if seen.endswith(form[:n])), 0)


def _masked(text: AnyStr, forms: tuple[AnyStr, ...]) -> AnyStr:
    for form in forms:
        if form in text:
            text = text.replace(form, MASK if isinstance(text, str) else MASK.encode())
    return text


def _forms(value: str) -> set[str]:
    from urllib.parse import quote  # not paid for by commands that know of no secret

    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    twice = {json.dumps(form)[1:-1] for form in escaped}
    encoded = quote(value.encode("utf-8", "surrogateescape"), safe="")
    return {value, encoded, value.replace('"', '""'), *escaped, *twice}


known = Secrets()
"""Those of this process."""
