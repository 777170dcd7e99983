"""Reads what Lean has compiled: the constants of a module, from its ``.olean`` files.

A file is a heap: objects with an 8-byte header, which refer to each other by address (``src/runtime/compact.cpp`` and
``src/Lean/Environment.lean`` of Lean; version 2 of the format, 32 and 64 bits). Nothing is executed or mapped, and all
reads are checked, so that a file written by an attacker does no harm. Written for Lean 4.9 and later.

Types and values become numbers: equal numbers mean the same term, but for the names of bound variables, metadata and
universe names' order. Numbers can be compared among all modules that share one `Terms`.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

MOST_BYTES = 64 << 20
"""Of all files of a module."""
_MARK, _VERSION = b"olean", 2
_VERSION_AT, _HASH_AT, _BASE_AT = 7, 40, 80
_ARRAY, _STRING, _BIG = 246, 249, 250
_LAST_CONSTRUCTOR = 244
_LONGEST_LIST = 10_000
"""Of constructors, or of universe parameters."""
_PRIVATE = "_private"

Kind = Literal["axiom", "definition", "theorem", "opaque", "quotient", "inductive", "constructor", "recursor"]
_KINDS: Sequence[Kind] = (
    "axiom", "definition", "theorem", "opaque", "quotient", "inductive", "constructor", "recursor",
)  # fmt: skip
_VALUED = ("definition", "theorem", "opaque")


class Malformed(Exception):
    """These bytes are no module that Lean has compiled."""


class Constant(NamedTuple):
    """A declaration.

    Attributes:
        type: its number in `Terms`.
        value: likewise; of an inductive type its constructors'. -1 without one.
        uses: constants that type and value name.
        mentions: constants that the type alone names.
    """

    kind: Kind
    type: int
    value: int
    uses: frozenset[str]
    mentions: frozenset[str]
    safe: bool


@dataclass
class Terms:
    """Gives equal terms equal numbers."""

    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, *shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))


@dataclass(frozen=True)
class Module:
    """A compiled module.

    Attributes:
        lean: version that wrote it.
        constants: by name; that of a private one is without its prefix.
        entries: how many entries each environment extension has (attributes, syntax, instances, …).
    """

    lean: str
    constants: Mapping[str, Constant]
    entries: Mapping[str, int]


def read_module(files: Sequence[bytes], terms: Terms) -> Module:
    """The module that `files` hold: ``.olean``, and where there are any ``.olean.server`` and ``.olean.private``.

    Raises:
        Malformed: they do not.
    """
    if not files or sum(map(len, files)) > MOST_BYTES:
        raise Malformed(f"a compiled module has between 1 and {MOST_BYTES} bytes")
    try:
        return _Reader([_Heap(data) for data in files], terms).module()
    except (IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error


class _Heap:
    """One file."""

    def __init__(self, data: bytes) -> None:
        if data[:5] != _MARK or data[5] != _VERSION:
            raise Malformed("not a compiled module of a known version")
        self.data = data
        self.lean = data[_VERSION_AT:_HASH_AT].rstrip(b"\0").decode("ascii")
        (base,) = struct.unpack_from("<Q", data, _BASE_AT)
        self.word = 8 if base < 1 << 48 else 4  # with 4, what follows the base is another address
        self.base = int(base if self.word == 8 else base & 0xFFFF_FFFF)
        (first,) = self._words(_BASE_AT + self.word, 1)
        self.root = first if self.holds(first) else self._words(len(data) - self.word, 1)[0]

    def holds(self, address: int) -> bool:
        return self.base <= address < self.base + len(self.data)

    def _words(self, at: int, count: int) -> tuple[int, ...]:
        if count < 0 or at < 0:
            raise Malformed("a size is negative")
        return struct.unpack_from(f"<{count}{'Q' if self.word == 8 else 'I'}", self.data, at)

    def constructor(self, address: int) -> tuple[int, tuple[int, ...], bytes]:
        """Tag, fields, and what follows them."""
        at = address - self.base
        _, size, fields, tag = struct.unpack_from("<iHBB", self.data, at)
        if tag > _LAST_CONSTRUCTOR:
            raise Malformed(f"an object of kind {tag} is where a constructor should be")
        return tag, self._words(at + 8, fields), self.data[at + 8 + fields * self.word : at + size]

    def kind(self, address: int) -> int:
        return int(self.data[address - self.base + 7])

    def array(self, address: int) -> tuple[int, ...]:
        at = address - self.base
        if self.data[at + 7] != _ARRAY:
            raise Malformed("expected an array, found another object")
        size, _ = self._words(at + 8, 2)
        return self._words(at + 8 + 2 * self.word, size)

    def text(self, address: int) -> str:
        at = address - self.base
        if self.data[at + 7] != _STRING:
            raise Malformed("expected text, found another object")
        size, _, _ = self._words(at + 8, 3)
        start = at + 8 + 3 * self.word
        return self.data[start : start + size - 1].decode("utf-8")

    def big(self, address: int) -> bytes:
        """The digits of a number that is larger than a word."""
        at = address - self.base + 8
        if self.word == 8:
            _, size = struct.unpack_from("<ii", self.data, at)
            start = self._words(at + 8, 1)[0] - self.base
        else:
            _, size, start = struct.unpack_from("<III", self.data, at)
            start -= self.base
        end = start + abs(size) * self.word
        if not 0 <= start <= end <= len(self.data):
            raise Malformed("a number lies outside of the file")
        return self.data[start:end]


class _Reader:
    """Decodes the objects of a module, each once."""

    def __init__(self, heaps: Sequence[_Heap], terms: Terms) -> None:
        self._heaps = heaps
        self._terms = terms
        self._names: dict[int, str] = {}
        self._found: dict[int, int] = {}
        self._named: dict[int, str] = {}
        """Constants, by the address of the term that names them."""
        self._below: dict[int, tuple[int, ...]] = {}

    def module(self) -> Module:
        last = self._heaps[-1]
        _, fields, _ = self._constructor(last.root)
        _, names, constants, _, entries = fields
        found: dict[str, Constant] = {}
        for address in self._array(constants):
            name, constant = self._constant(address)
            if name in found:
                raise Malformed(f"{name} is declared twice, once of them private")
            found[name] = constant
        if len(found) != len(self._array(names)):
            raise Malformed("the names of constants are not those of the constants")
        counted = {}
        for pair in self._array(entries):
            _, (name_at, listed), _ = self._constructor(pair)
            if size := len(self._array(listed)):
                counted[self._name(name_at)] = size
        return Module(last.lean, found, counted)

    def _heap(self, address: int) -> _Heap:
        for heap in self._heaps:
            if heap.holds(address):
                return heap
        raise Malformed("an object lies outside of the files")

    def _constructor(self, address: int) -> tuple[int, tuple[int, ...], bytes]:
        return self._heap(address).constructor(address)

    def _array(self, address: int) -> tuple[int, ...]:
        return self._heap(address).array(address)

    def _list(self, address: int) -> Iterator[int]:
        seen = 0
        while not address & 1:
            _, (head, address), _ = self._constructor(address)
            seen += 1
            if seen > _LONGEST_LIST:
                raise Malformed("a list does not end")
            yield head

    def _name(self, address: int) -> str:
        parts: list[str] = []
        at = address
        while not at & 1:
            if (known := self._names.get(at)) is not None:
                parts.append(known) if known else None
                break
            tag, (before, part), _ = self._constructor(at)
            parts.append(self._heap(part).text(part) if tag == 1 else str(self._natural(part)))
            if len(parts) > 10_000:
                raise Malformed("a name does not end")
            at = before
        name = ".".join(reversed(parts))
        if name.startswith(f"{_PRIVATE}.") and (end := name.find(".0.")) >= 0:
            name = name[end + 3 :]
        self._names[address] = name
        return name

    def _natural(self, address: int) -> Hashable:
        if address & 1:
            return address >> 1
        heap = self._heap(address)
        if heap.kind(address) != _BIG:
            raise Malformed("expected a number, found another object")
        return heap.big(address)

    def _constant(self, address: int) -> tuple[str, Constant]:
        tag, (value_at,), _ = self._constructor(address)
        kind = _KINDS[tag]
        _, fields, scalars = self._constructor(value_at)
        _, (name_at, levels, type_at), _ = self._constructor(fields[0])
        parameters = {self._name(each): number for number, each in enumerate(self._list(levels))}
        value, safe = -1, True
        roots = [type_at]
        if kind in _VALUED:
            value = self._term(fields[1], parameters)
            roots.append(fields[1])
        elif kind == "inductive":
            value = self._terms.number("constructors", *(self._name(each) for each in self._list(fields[4])))
        if kind == "definition":
            safe = scalars[0] == 1
        elif kind == "opaque" or kind == "axiom":
            safe = scalars[0] == 0
        return self._name(name_at), Constant(
            kind, self._term(type_at, parameters), value, self._used(roots), self._used([type_at]), safe
        )

    def _used(self, roots: Sequence[int]) -> frozenset[str]:
        """Constants named below `roots`, whose terms have been read."""
        pending, seen, found = list(roots), set(roots), set()
        while pending:
            at = pending.pop()
            if (name := self._named.get(at)) is not None:
                found.add(name)
            for below in self._below[at]:
                if below not in seen:
                    seen.add(below)
                    pending.append(below)
        return frozenset(found)

    def _term(self, address: int, parameters: Mapping[str, int]) -> int:
        """The number of a term. Universe parameters count by their place, so terms that have any are read for each
        declaration."""
        if not parameters:
            known = self._found
        else:
            known = {}
        opened: set[int] = set()
        pending = [address]
        while pending:
            at = pending[-1]
            if at in known:
                pending.pop()
                continue
            tag, fields, scalars = self._constructor(at)
            below = self._children(tag, fields)
            self._below[at] = below
            if at in opened:
                known[at] = self._numbered(at, tag, fields, scalars, [known[b] for b in below], parameters)
                pending.pop()
                continue
            opened.add(at)
            for each in below:
                if each not in known:
                    if each in opened:
                        raise Malformed("a term contains itself")
                    pending.append(each)
        return known[address]

    @staticmethod
    def _children(tag: int, fields: Sequence[int]) -> tuple[int, ...]:
        """Terms within a term: of ``Expr``'s constructors in their order."""
        if tag == 5:
            return fields[0], fields[1]
        if tag in (6, 7):
            return fields[1], fields[2]
        if tag == 8:
            return fields[1], fields[2], fields[3]
        if tag == 10:
            return (fields[1],)
        return (fields[2],) if tag == 11 else ()

    def _numbered(
        self,
        at: int,
        tag: int,
        fields: Sequence[int],
        scalars: bytes,
        below: Sequence[int],
        parameters: Mapping[str, int],
    ) -> int:
        number = self._terms.number
        if tag == 10:
            return below[0]
        if tag == 0:
            return number("variable", self._natural(fields[0]))
        if tag == 3:
            return number("sort", self._level(fields[0], parameters))
        if tag == 4:
            name = self._named[at] = self._name(fields[0])
            return number("constant", name, *(self._level(each, parameters) for each in self._list(fields[1])))
        if tag == 9:
            kind, (literal,), _ = self._constructor(fields[0])
            return number("literal", self._heap(literal).text(literal) if kind else self._natural(literal))
        if tag == 11:
            name = self._named[at] = self._name(fields[0])
            return number("projection", name, self._natural(fields[1]), *below)
        if tag in (5, 6, 7, 8):
            return number(tag, *below)
        raise Malformed(f"a term of kind {tag} is in a declaration")

    def _level(self, address: int, parameters: Mapping[str, int], depth: int = 0) -> int:
        number = self._terms.number
        if depth > 500:
            raise Malformed("a universe is nested too deeply")
        if address & 1:
            return number("level", 0)
        tag, fields, _ = self._constructor(address)
        if tag == 4:
            return number("level parameter", parameters[self._name(fields[0])])
        return number("level", tag, *(self._level(each, parameters, depth + 1) for each in fields))
