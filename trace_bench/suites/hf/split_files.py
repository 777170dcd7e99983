"""Which files of a data set's repository hold a split: by the header of its ``README.md``, else by their names.

The rules are those of the Hugging Face documentation on the structure of data set repositories
(https://huggingface.co/docs/hub/datasets-data-files-configuration).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from trace_bench.errors import ConfigError

KINDS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv")
"""Endings of files with rows, the best first; each may be followed by ``.gz``, but for Parquet."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""What else a split is called in names of files."""
_NO_ROWS = frozenset({"dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json"})
_SHARD = re.compile(r"(-\d{5}-of-\d{5}(-[0-9a-f]+)?|-[0-9a-f]{16})$")
_SHOWN = 8


def kind_of(name: str) -> str:
    """The ending of a file with rows; empty for any other file."""
    plain = name.lower().removesuffix(".gz")
    if name.rpartition("/")[2] in _NO_ROWS:
        return ""
    return next((kind for kind in KINDS if plain.endswith(kind)), "")


def header_of(card: str) -> dict[str, Any]:
    """The YAML header of a ``README.md``; empty if there is none that can be read."""
    import yaml

    lines = card.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    try:
        found = yaml.safe_load("\n".join(lines[1:end]))
    except (yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def split_files(names: Iterable[str], header: Mapping[str, Any], config: str, split: str, where: str) -> list[str]:
    """The files of `names` that hold the rows of `split`, sorted; all of one kind.

    Args:
        header: of the repository's ``README.md``.
        config: empty for the config that the header calls the default, or the only one.
        where: the data set, for messages.

    Raises:
        ConfigError: there is no such config or split; the sentence names those that were found.
    """
    rows = sorted(name for name in names if kind_of(name) and not any(p.startswith(".") for p in name.split("/")))
    if not rows:
        raise ConfigError(f"{where}: no file with rows was found; files may end in {', '.join(KINDS)}")
    declared = _configs(header)
    named = _chosen(declared, config, where) if declared else None
    if named is not None and "data_files" in named:
        by_split = _declared(named)
        if split not in by_split:
            raise ConfigError(f"{where}: unknown split {split!r}; its README.md names {_listed(by_split)}")
        found = [name for name in rows if any(_fits(name, pattern) for pattern in by_split[split])]
        if not found:
            wanted = _listed(by_split[split])
            raise ConfigError(
                f"{where}: no file of split {split!r}, which is {wanted} in README.md; found were {_first(rows)}"
            )
        return _of_one_kind(found)
    folder = str((named or {}).get("data_dir") or config).strip("/")
    inside = [name for name in rows if name.startswith(f"{folder}/")] if folder else []
    found = _by_name(inside or rows, split)
    if not found:
        raise ConfigError(f"{where}: no file is named after the split {split!r}; found were {_first(rows)}")
    return _of_one_kind(found)


def _configs(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    configs = header.get("configs")
    return [one for one in configs if isinstance(one, Mapping)] if isinstance(configs, list) else []


def _chosen(declared: Sequence[Mapping[str, Any]], config: str, where: str) -> Mapping[str, Any] | None:
    names = [str(one.get("config_name", "default")) for one in declared]
    if config:
        if config in names:
            return declared[names.index(config)]
    elif len(declared) == 1:
        return declared[0]
    else:
        default = [one for one, name in zip(declared, names, strict=True) if one.get("default") or name == "default"]
        if default:
            return default[0]
    said = f"unknown config {config!r}" if config else "it has several configs, and none is named"
    raise ConfigError(f"{where}: {said}; its README.md names {_listed(names)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _declared(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """``{split: patterns}`` of the ``data_files`` of a config."""
    folder = str(config.get("data_dir") or "").strip("/")
    found: dict[str, list[str]] = {}
    for split, patterns in _entries(config["data_files"]):
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            found.setdefault(split, []).append(f"{folder}/{pattern}" if folder else str(pattern))
    return found


def _entries(files: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(files, Mapping):
        yield from ((str(split), patterns) for split, patterns in files.items())
    elif isinstance(files, list) and all(isinstance(one, Mapping) for one in files):
        yield from ((str(one.get("split", "train")), one.get("path", [])) for one in files)
    else:
        yield "train", files


def _fits(name: str, pattern: str) -> bool:
    """Whether a file fits a pattern of ``data_files``, of which ``**`` goes across folders and ``*`` does not."""
    parts, wanted = name.split("/"), pattern.removeprefix("./").split("/")
    return _parts_fit(parts, wanted)


def _parts_fit(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_parts_fit(parts[n:], wanted[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _parts_fit(parts[1:], wanted[1:])


def _by_name(rows: Sequence[str], split: str) -> list[str]:
    """Files whose name is the split's, else those whose name has it as a word, else those in a folder of that name."""
    words = [word.lower() for word in _WORDS.get(split, (split,))]
    stems = {name: _SHARD.sub("", _stem(name)) for name in rows}
    if whole := [name for name, stem in stems.items() if stem in words]:
        return whole
    one = re.compile(rf"(?<![a-z])({'|'.join(map(re.escape, words))})(?![a-z])")
    if part := [name for name, stem in stems.items() if one.search(stem)]:
        return part
    return [name for name in rows if any(part.lower() in words for part in name.split("/")[:-1])]


def _stem(name: str) -> str:
    file = name.rpartition("/")[2].lower().removesuffix(".gz")
    return file.removesuffix(kind_of(name))


def _of_one_kind(names: Sequence[str]) -> list[str]:
    """A split that is there in several formats is read in one of them."""
    best = min((kind_of(name) for name in names), key=KINDS.index)
    return sorted(name for name in names if kind_of(name) == best)
