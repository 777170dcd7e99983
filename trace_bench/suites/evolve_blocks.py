"""Programs with marks around what a search may change, as OpenEvolve and ShinkaEvolve read them.

A line with ``EVOLVE-BLOCK-START`` begins a block, a line with ``EVOLVE-BLOCK-END`` ends it. Without marks the whole
program is one block. Standard library only: the host and the sandbox read programs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

START, END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


@dataclass(frozen=True)
class Marked:
    """A program in pieces.

    Attributes:
        fixed: the texts around the blocks, marks included; one more than there are blocks.
        blocks: the blocks without their common indentation.
        indents: that indentation.
    """

    fixed: tuple[str, ...]
    blocks: tuple[str, ...]
    indents: tuple[str, ...]

    @classmethod
    def of(cls, source: str) -> Marked:
        """Divide `source`.

        Raises:
            ValueError: a mark has no partner; the message names the line.
        """
        pieces: list[list[str]] = [[]]
        inside = 0
        for number, line in enumerate(source.splitlines(keepends=True), 1):
            if START in line:
                if inside:
                    raise ValueError(f"line {number}: {START} within the block that line {inside} starts")
                pieces[-1].append(line)
                pieces.append([])
                inside = number
            elif END in line:
                if not inside:
                    raise ValueError(f"line {number}: {END} without a {START} above it")
                pieces.append([line])
                inside = 0
            else:
                pieces[-1].append(line)
        if inside:
            raise ValueError(f"line {inside}: {START} without an {END} below it")
        texts = ["".join(piece) for piece in pieces]
        if len(texts) == 1:
            return cls(("", ""), (source,), ("",))
        plain = [textwrap.dedent(text) for text in texts[1::2]]
        indents = [_indent(text, dedented) for text, dedented in zip(texts[1::2], plain, strict=True)]
        return cls(tuple(texts[::2]), tuple(plain), tuple(indents))

    def with_blocks(self, blocks: Sequence[str]) -> str:
        """The program with other blocks in the places of its own."""
        parts = [self.fixed[0]]
        for block, indent, fixed in zip(blocks, self.indents, self.fixed[1:], strict=True):
            text = textwrap.indent(block, indent)
            parts += [text if text.endswith("\n") or not text else f"{text}\n", fixed]
        return "".join(parts)


def _indent(text: str, dedented: str) -> str:
    pairs = zip(text.splitlines(), dedented.splitlines(), strict=True)
    return next((line[: len(line) - len(plain)] for line, plain in pairs if plain.strip()), "")
