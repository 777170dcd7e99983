"""Gets data sets of the Hugging Face hub, or copies of them on disk, and freezes their rows. On the host."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.secrets import known
from trace_bench.suites.data_sources import Say, kept_in, sum_of, unreachable
from trace_bench.suites.hf import frozen
from trace_bench.suites.hf.frozen import LOCAL, Kept, Split
from trace_bench.suites.hf.row_files import RowFiles
from trace_bench.suites.hf.split_files import header_of, split_files
from trace_bench.suites.spec_tables import QaSpec

CARD = "README.md"


@dataclass(frozen=True)
class Wanted:
    """A config of a data set with the splits that tasks read.

    Attributes:
        tasks: their ids.
    """

    dataset: str
    config: str
    splits: tuple[str, ...]
    licence: str
    cite: str
    tasks: tuple[str, ...]

    @property
    def name(self) -> str:
        return frozen.shown_name(self.dataset, self.config)

    def copy(self) -> Kept | None:
        """As of `trace_bench.suites.data_sets.DataSet`."""
        return frozen.kept(self.dataset, self.config)

    def fetch(self, *, mirror: str | None, revision: str | None, say: Say) -> Kept:
        """Get its splits from the hub: of `revision`, else of the recorded one, else of the newest. Splits that
        are there stay.

        Args:
            mirror: address in place of the hub's.

        Raises:
            ConfigError: there is no such data set, revision, config or split; or the recorded revision has other
                content.
            EnvironmentUnavailable: the hub cannot be reached or asks for a token, the disk takes no files, or
                ``huggingface_hub`` is not installed.
        """
        before = frozen.kept(self.dataset, self.config)
        if before is not None and before.revision == LOCAL:
            before = None
        if before is not None and revision in (None, before.revision) and not _lacking(before, self.splits):
            introduce(self, {}, say)
            return before
        hub = _Hub(self, mirror, say)
        with kept_in(frozen.home()), hub.answers():
            names, found = hub.listed(revision or (before.revision if before is not None else None))
            splits = list(self.splits)
            if before is not None and before.revision != found:
                splits = list(dict.fromkeys((*splits, *before.splits)))  # of one revision, all that was there
                before = None
            lacking = _lacking(before, splits)
            header = header_of(hub.text(CARD, found)) if lacking and CARD in names else {}
            introduce(self, header, say)
            files = {name: split_files(names, header, self.config, name, self.name) for name in lacking}
            got = {
                name: hub.file(name, found)
                for name in hub.counted(sorted({n for all_ in files.values() for n in all_}))
            }
            made = {}
            for name, parts in files.items():
                sums = {part: sum_of(got[part]) for part in parts}
                if before is not None and name in before.splits:
                    _check_same(self, found, before.splits[name].files, sums)
                made[name] = _frozen([(part, got[part]) for part in parts], sums)
            return _recorded(self, header, found, made, before)

    def take(self, folder: Path, *, say: Say) -> Kept:
        """Freeze its splits from `folder` with Parquet, JSON or CSV files; it replaces what was there.

        Raises:
            ConfigError: no such folder, or it does not have the splits.
        """
        if not folder.is_dir():
            raise ConfigError(f"--from {folder}: no such folder")
        paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        try:
            header = header_of(paths[CARD].read_text(encoding="utf-8", errors="replace")) if CARD in paths else {}
        except OSError as error:
            raise ConfigError(f"{paths[CARD]}: cannot be read: {error.strerror or error}") from None
        introduce(self, header, say)
        where = f"--from {folder}: {self.name}"
        files = {name: split_files(paths, header, self.config, name, where) for name in self.splits}
        with kept_in(frozen.home()):
            made = {
                name: _frozen([(part, paths[part]) for part in parts], {part: sum_of(paths[part]) for part in parts})
                for name, parts in files.items()
            }
            return _recorded(self, header, LOCAL, made, None)


def wanted_by(tasks: Iterable[tuple[str, QaSpec]]) -> list[Wanted]:
    """The data sets of `tasks`, each config of one once."""
    found: dict[tuple[str, str], Wanted] = {}
    for task, qa in tasks:
        new = Wanted(qa.dataset_id, qa.dataset_config, splits_of(qa), qa.licence, qa.cite, (task,))
        key = (new.dataset, new.config)
        if (before := found.get(key)) is not None:
            splits = tuple(dict.fromkeys((*before.splits, *new.splits)))
            new = replace(before, splits=splits, tasks=(*before.tasks, task))
        found[key] = new
    return list(found.values())


def splits_of(qa: QaSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys((qa.train_split, qa.test_split)))


def _lacking(before: Kept | None, splits: Iterable[str]) -> list[str]:
    known = before.splits if before is not None else {}
    return [name for name in splits if name not in known or known[name].damaged]


def introduce(wanted: Wanted, header: Mapping[str, Any], say: Say) -> None:
    """Say what is fetched, its licence and its citation."""
    say(f"{wanted.name}, for {', '.join(wanted.tasks[:3])}{' …' if len(wanted.tasks) > 3 else ''}")
    say(f"licence: {_licence(wanted, header)}")
    say(f"cite: {wanted.cite or 'see the README.md of its repository'}")


def _licence(wanted: Wanted, header: Mapping[str, Any]) -> str:
    card = header.get("license")
    said = ", ".join(map(str, card)) if isinstance(card, list) else str(card or "")
    if not wanted.licence:
        return said or "none is named"
    return f"{wanted.licence} (its README.md says {said})" if said else wanted.licence


def _check_same(wanted: Wanted, revision: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            raise ConfigError(
                f"{wanted.name}, revision {revision}: the SHA-256 of {name} is {now.get(name, 'none: it is gone')}, "
                f"and {before.get(name, 'no such file')} was recorded: a revision does not change, so the server "
                f"gives other files; to take them as they are now, delete the entry of {wanted.dataset} in "
                f"{frozen.home() / 'lock.json'} first"
            )


def _frozen(files: Sequence[tuple[str, Path]], sums: Mapping[str, str]) -> Split:
    rows = RowFiles(files)
    schema = rows.schema()
    return frozen.freeze(rows.batches(schema), schema, sums)


def _recorded(
    wanted: Wanted, header: Mapping[str, Any], revision: str, made: Mapping[str, Split], before: Kept | None
) -> Kept:
    if not made and before is not None:
        return before
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return frozen.record(
        Kept(wanted.dataset, wanted.config, revision, today, _licence(wanted, header), wanted.cite, made)
    )


class _Hub:
    """A repository of the hub, through ``huggingface_hub``, which keeps files in its own cache and knows the token."""

    def __init__(self, wanted: Wanted, mirror: str | None, say: Say) -> None:
        try:
            import huggingface_hub
            from huggingface_hub.utils.tqdm import disable_progress_bars
        except ImportError:
            raise EnvironmentUnavailable(
                f"{wanted.name} is fetched with huggingface_hub, not installed here: pip install 'trace-bench[hf]'"
            ) from None
        known.add([token] if (token := huggingface_hub.get_token()) else [])
        self._wanted, self._mirror, self._say = wanted, mirror, say
        self._api = huggingface_hub.HfApi(endpoint=mirror)
        self._revision: str | None = None
        self._bars = sys.stderr.isatty()
        if not self._bars:
            disable_progress_bars()

    @contextmanager
    def answers(self) -> Iterator[None]:
        """What the hub answers in place of a file becomes one sentence."""
        import httpx
        from huggingface_hub import errors

        dataset = self._wanted.dataset
        page = f"{self._api.endpoint}/datasets/{dataset}"
        try:
            yield
        except errors.GatedRepoError:
            raise EnvironmentUnavailable(
                f"{dataset} is gated: accept its terms on {page}, and put a token that may read it in HF_TOKEN"
            ) from None
        except errors.RevisionNotFoundError:
            raise ConfigError(f"{dataset} has no revision {self._revision!r}; --revision names another one") from None
        except (errors.RepositoryNotFoundError, errors.HFValidationError):
            raise ConfigError(
                f"{page} does not exist, or is private: look at dataset_id of {self._wanted.tasks[0]}, or put a token "
                "that may read it in HF_TOKEN"
            ) from None
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, httpx.HTTPError, ConnectionError) as error:
            raise unreachable(dataset, error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise unreachable(dataset, error) from error  # a file came with another length than was announced

    def listed(self, revision: str | None) -> tuple[list[str], str]:
        """The names of its files at `revision` (None: the newest), and the commit that this is."""
        self._revision = revision
        info = self._api.dataset_info(self._wanted.dataset, revision=revision)
        return [file.rfilename for file in info.siblings or ()], str(info.sha or "")

    def file(self, name: str, revision: str) -> Path:
        """A file on disk."""
        return Path(self._api.hf_hub_download(self._wanted.dataset, name, repo_type="dataset", revision=revision))

    def text(self, name: str, revision: str) -> str:
        return self.file(name, revision).read_text(encoding="utf-8", errors="replace")

    def counted(self, names: Sequence[str]) -> Iterator[str]:
        """`names`, each with a line unless the hub's own bars are shown."""
        for number, name in enumerate(names, 1):
            if not self._bars:
                self._say(f"{number} of {len(names)}: {name}")
            yield name
