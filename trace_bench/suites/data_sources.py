"""Published collections that ``trace-bench data fetch`` gets: CO-Bench, and OR-Library. On the host.

A collection is a folder, ``data/NAME`` among the user's data, in CO-Bench's layout: a sub-folder for each task. Beside
the files lie ``SHA256SUMS`` (as ``sha256sum`` writes it) and ``SOURCE.json``. The sums are those of the first fetch, or
of a file that the user names: a later fetch takes no other content under the same name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.homes import data_home

SUMS = "SHA256SUMS"
ABOUT = "SOURCE.json"
_SECONDS = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """A published collection.

    Attributes:
        licence: what is known of its terms of use.
        repository: of the Hugging Face hub (a data set); None for files of a web server.
        url: of that server's folder.
        files: by folder of a task: names of files, ``{}`` in them standing for each of the values.
    """

    name: str
    title: str
    licence: str
    citation: str
    repository: str | None = None
    url: str = ""
    files: Mapping[str, tuple[tuple[str, tuple[object, ...]], ...]] = field(default_factory=dict)

    def introduce(self, say: Say) -> None:
        """Say what it is, its licence and its citation."""
        for line in (self.title, f"licence: {self.licence}", f"cite: {self.citation}"):
            say(line)

    def wanted(self) -> Iterator[tuple[str, str]]:
        """Folder and name of each file of a web server."""
        for folder, groups in self.files.items():
            for pattern, values in groups:
                yield from ((folder, pattern.format(value)) for value in values)


@dataclass(frozen=True)
class Fetched:
    """What is in the folder of a collection.

    Attributes:
        revision: of the repository; empty for files of a web server.
        lacking: names that the server does not have.
    """

    folder: Path
    files: int
    size: int
    revision: str = ""
    lacking: tuple[str, ...] = ()


def _up_to(last: int, first: int = 1) -> tuple[object, ...]:
    return tuple(range(first, last + 1))


_CAP = (
    *_up_to(44, 41), 51, *_up_to(64, 61), *_up_to(74, 71), *_up_to(84, 81), *_up_to(94, 91), *_up_to(104, 101),
    *_up_to(114, 111), *_up_to(124, 121), *_up_to(134, 131),
)  # fmt: skip
_SCP = (
    *_up_to(49, 41), 410, *_up_to(59, 51), 510, *_up_to(65, 61),
    *(f"{series}{n}" for series in "abcde" for n in _up_to(5)),
    *(f"nr{series}{n}" for series in "efgh" for n in _up_to(5)), *(f"clr{n}" for n in _up_to(13, 10)),
    *(f"cyc{n:02d}" for n in range(6, 12)),
)  # fmt: skip
_SPP = (
    *(f"nw{n:02d}" for n in range(1, 44)), *(f"aa{n:02d}" for n in range(1, 7)), *(f"us{n:02d}" for n in range(1, 5)),
    "kl01", "kl02",
)  # fmt: skip
SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source(
            "co-bench",
            "CO-Bench, 36 combinatorial optimization problems",
            "none is named in its repository; most files are OR-Library's",
            "Sun, Feng, Li, Welleck, Yang: CO-Bench, arXiv:2504.04310",
            repository="CO-Bench/CO-Bench",
        ),
        Source(
            "or-library",
            "OR-Library, test data sets of operations research",
            "its pages of data name none; cite the paper",
            "J. E. Beasley: OR-Library, distributing test problems by electronic mail, JORS 41, 1990",
            url="https://people.brunel.ac.uk/~mastjjb/jeb/orlib/files",
            files={
                "Aircraft landing": (("airland{}.txt", _up_to(13)),),
                "Assignment problem": (("assign{}.txt", tuple(range(100, 900, 100))),),
                "Bin packing - one-dimensional": (("binpack{}.txt", _up_to(8)),),
                "Capacitated warehouse location": (("cap{}.txt", _CAP),),
                "Uncapacitated warehouse location": (("cap{}.txt", (*_CAP, "a", "b", "c")),),
                "Common due date scheduling": (("sch{}.txt", (10, 20, 50, 100, 200, 500, 1000)),),
                "Constrained guillotine cutting": (("cgcut{}.txt", _up_to(3)),),
                "Constrained non-guillotine cutting": (("ngcut{}.txt", _up_to(12)),),
                "Unconstrained guillotine cutting": (("gcut{}.txt", _up_to(13)),),
                "Container loading": (("thpack{}.txt", _up_to(8)),),
                "Container loading with weight restrictions": (("wtpack{}.txt", _up_to(7)),),
                "Crew scheduling": (("csp{}.txt", tuple(range(50, 550, 50))),),
                "Euclidean Steiner problem": (("estein{}.txt", (1, *range(10, 110, 10), 250, 500)),),
                "Generalised assignment problem": (("gap{}.txt", (*_up_to(12), *"abcd")),),
                "Graph colouring": (("gcol{}.txt", _up_to(30)),),
                "Multi-Demand Multidimensional Knapsack problem": (("mdmkp_ct{}.txt", _up_to(9)),),
                "Multidimensional knapsack problem": (("mknap{}.txt", (1, *(f"cb{n}" for n in _up_to(9)))),),
                "p-median - capacitated": (("pmedcap{}.txt", (1,)),),
                "p-median - uncapacitated": (("pmed{}.txt", _up_to(40)),),
                "Resource constrained shortest path": (("rcsp{}.txt", _up_to(24)),),
                "Set covering": (("scp{}.txt", _SCP),),
                "Set partitioning": (("spp{}.txt", _SPP),),
            },
        ),
    )
}


def source_of(name: str) -> Source:
    """The collection `name`.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in SOURCES:
        raise ConfigError(f"there is no collection {name!r}{hint(name, SOURCES)}")
    return SOURCES[name]


def folder_of(source: Source) -> Path:
    """Where the files of a collection are kept. May not exist."""
    return data_home() / "data" / source.name


def located(named: str) -> Path:
    """The folder that ``--data`` names: a folder, or the name of a collection that was fetched.

    Raises:
        ConfigError: it is the name of a collection that was not fetched.
    """
    if named not in SOURCES or Path(named).exists():
        return Path(named)
    folder = folder_of(SOURCES[named])
    if not (folder / SUMS).is_file():
        raise ConfigError(f"{named} has not been fetched; run: trace-bench data fetch {named}")
    return folder


def fetch(source: Source, *, mirror: str | None, revision: str | None, sums: Path | None, say: Say) -> Fetched:
    """Download a collection. Files that are there and have the recorded sums stay.

    Args:
        mirror: address in place of the hub's, or of the web server's folder.
        revision: of the repository; None for the newest.
        sums: a file as ``sha256sum`` writes it, whose sums hold in place of recorded ones.

    Raises:
        ConfigError: a file has another sum than was recorded, or `sums` cannot be read.
        EnvironmentUnavailable: the server cannot be reached, or ``huggingface_hub`` is not installed.
    """
    folder = folder_of(source)
    expected = _read_sums(sums if sums is not None else folder / SUMS, needed=sums is not None)
    if source.repository is None and revision is not None:
        raise ConfigError(f"--revision: {source.name} is no repository; leave it out")
    source.introduce(say)
    with kept_in(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if source.repository is not None:
            return _recorded(source, folder, expected, _snapshot(source, folder, mirror, revision), ())
        lacking = tuple(_downloads(source, folder, mirror or source.url, expected, say))
        return _recorded(source, folder, expected, "", lacking)


def take(source: Source, copy: Path, *, sums: Path | None, say: Say) -> Fetched:
    """Copy a collection from a folder of the user's, in CO-Bench's layout.

    Raises:
        ConfigError: no such folder, it is empty, or a file has another sum than `sums` says.
    """
    if not copy.is_dir():
        raise ConfigError(f"--from {copy}: no such folder")
    expected = _read_sums(sums, needed=True) if sums is not None else {}
    folder = folder_of(source)
    source.introduce(say)
    names = list(_files(copy))
    if not names:
        raise ConfigError(f"--from {copy}: the folder is empty")
    for name in names:
        _check(name, copy / name, expected)
    with kept_in(folder):
        shutil.rmtree(folder, ignore_errors=True)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copy / name, folder / name)
        return _recorded(source, folder, {}, "", ())


def kept(source: Source) -> Fetched | None:
    """What was fetched of a collection; None if nothing was."""
    folder = folder_of(source)
    if not (folder / SUMS).is_file():
        return None
    about = json.loads((folder / ABOUT).read_bytes())
    names = _read_sums(folder / SUMS, needed=True)
    size = sum(path.stat().st_size for path in map(folder.joinpath, names) if path.is_file())
    return Fetched(folder, len(names), size, about["revision"])


def damaged(source: Source) -> list[str]:
    """Files of a fetched collection that are gone or have another content than was recorded."""
    folder = folder_of(source)
    expected = _read_sums(folder / SUMS, needed=True)
    return [
        name for name, digest in expected.items() if not (folder / name).is_file() or sum_of(folder / name) != digest
    ]


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """What is to be written lies below `folder`; a disk that does not take it is the environment's fault."""
    try:
        yield
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{error.filename or folder}: files cannot be kept there: {error.strerror or error}; make room, or name "
            "another place in TRACE_BENCH_HOME"
        ) from error


def _snapshot(source: Source, folder: Path, mirror: str | None, revision: str | None) -> str:
    """The files of a repository; returns its revision."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
    except ImportError:
        raise EnvironmentUnavailable(
            f"{source.name} is fetched with huggingface_hub, not installed here: pip install 'trace-bench[hf]'"
        ) from None
    import httpx

    api = huggingface_hub.HfApi(endpoint=mirror)
    try:
        found = api.dataset_info(str(source.repository), revision=revision).sha or ""
        api.snapshot_download(str(source.repository), repo_type="dataset", revision=found, local_dir=folder)
    except RevisionNotFoundError:
        raise ConfigError(f"--revision: {source.repository} has no revision {revision!r}") from None
    except (LocalEntryNotFoundError, RepositoryNotFoundError, httpx.HTTPError, ConnectionError) as error:
        raise unreachable(source.name, error) from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return str(found)


def _downloads(source: Source, folder: Path, url: str, expected: Mapping[str, str], say: Say) -> Iterator[str]:
    """Download the files of a web server; yields the names that it does not have."""
    try:
        import httpx
    except ImportError:
        raise EnvironmentUnavailable(
            f"{source.name} is fetched with httpx, not installed here: pip install 'trace-bench[hf]'"
        ) from None

    wanted = list(source.wanted())
    transport = httpx.HTTPTransport(retries=3)
    with httpx.Client(timeout=_SECONDS, follow_redirects=True, transport=transport) as client:
        for number, (task, name) in enumerate(wanted, 1):
            path = folder / task / name
            if path.is_file() and expected.get(f"{task}/{name}") == sum_of(path):
                continue
            say(f"{number} of {len(wanted)}: {name}")
            try:
                reply = client.get(f"{url.rstrip('/')}/{name}")
                if reply.status_code == 404:
                    yield name
                    continue
                reply.raise_for_status()
            except httpx.HTTPError as error:
                raise unreachable(source.name, error) from error
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{name}.part")
            part.write_bytes(reply.content)
            _check(f"{task}/{name}", part, expected)
            part.replace(path)


def unreachable(name: str, error: Exception) -> EnvironmentUnavailable:
    """The error of a server that does not give what `name` stands for."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return EnvironmentUnavailable(
        f"{name} cannot be fetched: {said[:200]}; try again, name a --mirror, or a copy on disk with --from"
    )


def _recorded(
    source: Source, folder: Path, expected: Mapping[str, str], revision: str, lacking: tuple[str, ...]
) -> Fetched:
    """Check the files of `folder` against the sums that are known, and record all."""
    names = [name for name in _files(folder) if name not in (SUMS, ABOUT)]
    if not names:
        raise EnvironmentUnavailable(f"{source.name} cannot be fetched: the server has none of its files")
    for name in names:
        _check(name, folder / name, expected)
    text = "".join(f"{sum_of(folder / name)}  {name}\n" for name in names)
    about = {"source": source.name, "revision": revision, "licence": source.licence, "cite": source.citation}
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (folder / SUMS).write_text(text, encoding="utf-8")
    size = sum((folder / name).stat().st_size for name in names)
    return Fetched(folder, len(names), size, revision, lacking)


def _check(name: str, path: Path, expected: Mapping[str, str]) -> None:
    if name in expected and (found := sum_of(path)) != expected[name]:
        raise ConfigError(
            f"{name}: its SHA-256 is {found}, and {expected[name]} was recorded: the file has changed where it comes "
            f"from; to take it as it is now, delete {folder_name(path, name)} first"
        )


def folder_name(path: Path, name: str) -> Path:
    """The folder that holds `path` under the relative `name`."""
    return path.parents[len(PurePosixPath(name).parts) - 1]


def _files(folder: Path) -> Iterable[str]:
    """Relative names of the files below `folder`, sorted; none that is hidden or in a hidden folder."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in name.parts):
            yield name.as_posix()


def _read_sums(path: Path, *, needed: bool) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            raise ConfigError(f"{path}: there is no such file of checksums") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise ConfigError(f"{path}, line {number}: must be a SHA-256, two blanks and a relative name")
        found[name] = digest.lower()
    return found


def sum_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
