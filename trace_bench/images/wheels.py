"""The wheelhouse: pinned wheels, downloaded on the host through an ordinary pip, checked by hash and kept.

Images are built without a network. Which index the host's pip asks is the host's affair and is written
nowhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_bench.errors import EnvironmentUnavailable

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NEWEST_MANYLINUX_2014 = 17


@dataclass(frozen=True)
class Target:
    """What wheels must fit: CPython ``3.x``, a machine (``x86_64``) and a glibc (``2.36``)."""

    python: str
    machine: str
    glibc: str

    @property
    def folder(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}-glibc{self.glibc}"

    @property
    def platforms(self) -> list[str]:
        """Platform tags that fit, newest first (PEP 600: a glibc runs what was built against an older one)."""
        minor = int(self.glibc.split(".")[1])
        tags = [f"manylinux_2_{m}_{self.machine}" for m in range(minor, _NEWEST_MANYLINUX_2014 - 1, -1)]
        return [*tags, f"manylinux2014_{self.machine}", f"linux_{self.machine}"]


@dataclass(frozen=True)
class Pin:
    """One line of a hashed requirements file."""

    name: str
    version: str
    hashes: frozenset[str]

    @property
    def prefix(self) -> str:
        """How the file name of its wheels starts, in lower case."""
        return f"{re.sub(r'[-_.]+', '_', self.name).lower()}-{self.version.lower()}-"


def read_pins(path: Path) -> list[Pin]:
    """The pins of a hashed requirements file.

    Raises:
        EnvironmentUnavailable: a line is not pinned by ``==`` with hashes.
    """
    pins = []
    for number, line in enumerate(_logical_lines(path.read_text("utf-8")), 1):
        match = _PIN.match(line)
        hashes = frozenset(_HASH.findall(line))
        if match is None or not hashes:
            raise EnvironmentUnavailable(
                f"{path}, entry {number}: {line.split(' ')[0]!r} is not pinned with hashes; run "
                f"scripts/lock-requirements"
            )
        pins.append(Pin(match["name"], match["version"], hashes))
    return pins


def gather(requirements: Sequence[Path], target: Target, cache: Path) -> list[Path]:
    """The wheels of `requirements` for `target`, one per pin, from `cache` or else downloaded into it.

    Raises:
        EnvironmentUnavailable: a wheel is neither there nor to be had; the message says what pip said.
    """
    house = cache / "wheels" / target.folder
    house.mkdir(parents=True, exist_ok=True)
    wheels: list[Path] = []
    for path in requirements:
        pins = read_pins(path)
        found = {pin: _kept(pin, house) for pin in pins}
        if missing := [pin for pin in pins if found[pin] is None]:
            _download(missing, target, house)
            found |= {pin: _kept(pin, house) for pin in missing}
        for pin, wheel in found.items():
            if wheel is None:
                raise EnvironmentUnavailable(
                    f"pip brought no wheel of {pin.name}=={pin.version} that matches {path}; run "
                    f"scripts/lock-requirements"
                )
            wheels.append(wheel)
    return wheels


def _kept(pin: Pin, house: Path) -> Path | None:
    """A wheel of `pin` in `house` whose content matches one of its hashes."""
    for wheel in sorted(house.glob("*.whl")):
        if wheel.name.lower().startswith(pin.prefix):
            with wheel.open("rb") as content:
                if hashlib.file_digest(content, "sha256").hexdigest() in pin.hashes:
                    return wheel
    return None


def _download(pins: Sequence[Pin], target: Target, house: Path) -> None:
    platforms = [word for tag in target.platforms for word in ("--platform", tag)]
    with tempfile.TemporaryDirectory(dir=house, prefix=".download-") as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text("".join(_requirement(pin) for pin in pins), "utf-8")
        command = [
            *pip_command(), "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
            "--require-hashes", "--implementation", "cp", "--python-version", target.python, *platforms,
            "--dest", folder, "-r", str(wanted),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            names = ", ".join(f"{pin.name}=={pin.version}" for pin in pins)
            raise EnvironmentUnavailable(
                f"pip cannot download {names} for CPython {target.python} on {target.machine} "
                f"({_last_words(done.stderr)}); "
                f"name an index or a folder of wheels to pip, or put the wheels into {house}"
            )
        for wheel in Path(folder).glob("*.whl"):
            wheel.replace(house / wheel.name)


def _requirement(pin: Pin) -> str:
    hashes = "".join(f" --hash=sha256:{value}" for value in sorted(pin.hashes))
    return f"{pin.name}=={pin.version}{hashes}\n"


def pip_command() -> list[str]:
    """This environment's pip, else the one on PATH. (Environments made by uv have none.)"""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if (found := shutil.which(name)) is not None:
            return [found]
    raise EnvironmentUnavailable(
        f"pip is missing, which downloads the wheels of an image; run {sys.executable} -m ensurepip and try again"
    )


def _last_words(stderr: str) -> str:
    """pip's errors on one line, without its warnings."""
    lines = [line.removeprefix("ERROR: ").strip() for line in stderr.splitlines() if line.startswith("ERROR:")]
    return "; ".join(lines)[:600] or "it gave no reason"


def _logical_lines(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
