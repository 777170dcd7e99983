"""Names in an untrusted archive: which of them may become files."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from trace_bench.errors import BrokenArchive, CollectError

_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that control, or cannot be shown."""


@dataclass
class Names:
    """The names of one archive.

    Args:
        path_bytes, name_bytes: of a whole name, and of each component.
    """

    path_bytes: int = 1024
    name_bytes: int = 255
    _folded: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def parts(self, name: str, is_folder: bool) -> tuple[str, ...]:
        """The components of `name`, all of which can be shown and stay below where they are put.

        Raises:
            BrokenArchive: no file of a file system has such a name.
            CollectError: a file of a sandbox can have it, and is not collected.
        """
        if len(name.encode("utf-8")) > self.path_bytes:
            raise CollectError(f"the name {name[:120]} is longer than {self.path_bytes} bytes")
        if any(unicodedata.category(character) in _UNSHOWN for character in name):
            raise CollectError(f"the name {name} holds a control character or one that cannot be shown")
        if name.startswith("/"):
            raise BrokenArchive(f"the name {name} is absolute")
        if "\\" in name:
            raise CollectError(f"the name {name} holds a backslash")
        parts = (name.removesuffix("/") if is_folder else name).split("/")
        for part in parts:
            if part in ("", ".", ".."):
                raise BrokenArchive(f"the name {name} has an empty component, '.' or '..'")
            if len(part.encode("utf-8")) > self.name_bytes:
                raise CollectError(f"a component of {name} is longer than {self.name_bytes} bytes")
        return tuple(parts)

    def claim(self, parts: tuple[str, ...]) -> None:
        """Take `parts`.

        Raises:
            CollectError: a file system that ignores case or composition would take it for a name that was taken before.
        """
        for end in range(1, len(parts) + 1):
            exact = parts[:end]
            folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in exact)
            if self._folded.setdefault(folded, exact) != exact:
                other = "/".join(self._folded[folded])
                raise CollectError(f"{'/'.join(exact)} and {other} differ by case only")
