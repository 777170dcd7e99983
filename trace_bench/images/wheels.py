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

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NEWEST_MANYLINUX_2014 = 17


@dataclass(frozen=True)
class Target:
    """The platform that wheels must fit: CPython ``3.x``, a machine (``x86_64``) and a glibc (``2.36``)."""

    python: str
    machine: str
    glibc: str

    @property
    def folder(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}-glibc{self.glibc}"

    def fits(self, pin: Pin) -> bool:
        """Whether `pin` is for this target, by its marker (``; python_version < '3.12'``)."""
        if not pin.marker:
            return True
        here = {
            "implementation_name": "cpython", "implementation_version": f"{self.python}.0", "os_name": "posix",
            "platform_machine": self.machine, "platform_python_implementation": "CPython",
            "platform_release": "", "platform_system": "Linux", "platform_version": "", "sys_platform": "linux",
            "python_full_version": f"{self.python}.0", "python_version": self.python,
        }  # fmt: skip
        from packaging.markers import Marker  # a run that builds no image does without

        return Marker(pin.marker).evaluate(here)

    @property
    def platforms(self) -> list[str]:
        """Platform tags that fit, newest first (PEP 600: a glibc runs what was built against an older one)."""
        minor = int(self.glibc.split(".")[1])
        tags = [f"manylinux_2_{m}_{self.machine}" for m in range(minor, _NEWEST_MANYLINUX_2014 - 1, -1)]
        return [*tags, f"manylinux2014_{self.machine}", f"linux_{self.machine}"]


@dataclass(frozen=True)
class Pin:
    """One line of a hashed requirements file.

    Attributes:
        marker: for which targets it is, as PEP 508 has it; empty for all.
    """

    name: str
    version: str
    hashes: frozenset[str]
    marker: str = ""

    @property
    def key(self) -> str:
        """The name, normalised (PEP 503)."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    @property
    def prefix(self) -> str:
        """How the file name of its wheels starts, in lower case."""
        return f"{self.key.replace('-', '_')}-{self.version.lower()}-"


def read_pins(path: Path) -> list[Pin]:
    """The pins of a hashed requirements file.

    Raises:
        EnvironmentUnavailable: a line is not pinned by ``==`` with hashes.
    """
    from packaging.requirements import Requirement

    lines = [line.strip() for line in path.read_text("utf-8").replace("\\\n", " ").splitlines()]
    pins = []
    for number, line in enumerate([line for line in lines if line and not line.startswith("#")], 1):
        hashes = frozenset(_HASH.findall(line))
        try:
            requirement = Requirement(line.partition(" --hash")[0])
            (pinned,) = requirement.specifier
            if pinned.operator != "==" or pinned.version.endswith("*") or not hashes:
                raise ValueError("neither one version nor hashes")
        except ValueError as error:
            text = f"{line.split(' ')[0]!r} is not pinned with hashes; run scripts/lock-requirements"
            raise EnvironmentUnavailable(f"{path}, entry {number}: {text}") from error
        pins.append(Pin(requirement.name, pinned.version, hashes, str(requirement.marker or "")))
    return pins


def gather(requirements: Sequence[Path], target: Target, cache: Path) -> list[Path]:
    """The wheels of `requirements` for `target`, one per pin that fits, from `cache` or else downloaded into it.

    Raises:
        EnvironmentUnavailable: a wheel is neither there nor to be had; the message says what pip said.
    """
    pins = [pin for path in requirements for pin in read_pins(path)]
    return gather_pins([pin for pin in pins if target.fits(pin)], target, cache)


def gather_pins(pins: Sequence[Pin], target: Target, cache: Path) -> list[Path]:
    """The wheels of `pins`, as `gather`."""
    house = cache / "wheels" / target.folder
    house.mkdir(parents=True, exist_ok=True)
    found = {pin: _kept(pin, house) for pin in pins}
    if missing := [pin for pin in pins if found[pin] is None]:
        _download(missing, target, house)
        found |= {pin: _kept(pin, house) for pin in missing}
    wheels: list[Path] = []
    for pin, wheel in found.items():
        if wheel is None:
            raise EnvironmentUnavailable(
                f"pip brought no wheel of {pin.name}=={pin.version} that matches its hashes; run "
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
        wanted.write_text(requirements_text(pins), "utf-8")
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


def requirements_text(pins: Sequence[Pin]) -> str:
    """A hashed requirements file of `pins`, without their markers."""
    hashes = {pin: "".join(f" --hash=sha256:{value}" for value in sorted(pin.hashes)) for pin in pins}
    return "".join(f"{pin.name}=={pin.version}{hashes[pin]}\n" for pin in pins)


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
