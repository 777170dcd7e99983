"""Makes a base out of Debian packages where no registry can be reached: mmdebstrap, then ``docker import``.

The packages come from the mirror that this machine's apt uses; its address is read at run time and does not
stay in the image. What such a base *is*, is its list of packages and versions.
"""

from __future__ import annotations

import hashlib
import os
import platform
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.homes import cache_home
from trace_bench.images.engine import engine_errors, few_limits

if TYPE_CHECKING:
    from docker import DockerClient

Progress = Callable[[str], None]

REPOSITORY = "trace-bench/debian"
IDENTITY_LABEL = "trace-bench.base-identity"
RECIPE_LABEL = "trace-bench.base-recipe"
ENVIRONMENT = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# usr-is-merged keeps out usrmerge, which would bring 50 MB of Perl; the hook makes its claim true.
_INCLUDE = ("python3", "usr-is-merged")
_MERGED_USR = Path("/usr/share/mmdebstrap/hooks/maybe-merged-usr")
_EPOCH = "1735689600"
_WITHOUT_ROOT = {"mmdebstrap": "mmdebstrap", "uidmap": "newuidmap"}
"""Packages that a user who is not root cannot install, each with a command that is there if the package is."""
_STRIP = tuple(f"/usr/share/{name}/*" for name in ("man", "info", "locale", "lintian", "doc"))
_KEEP = ("/usr/share/doc/*/copyright",)
# The byte code that Debian's packages make on installation names its sources' times, which the fixed epoch
# changes; unless it is made again, each interpreter would compile what it imports. Set-uid programs have no
# business here. /tmp is left alone: mmdebstrap keeps its apt configuration there, and without it would tidy the
# lists of this machine in place of the base's.
_HOOKS = (
    'chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.*',
    'rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/resolv.conf "$1"/etc/hostname',
    'rm -rf "$1"/var/log/* "$1"/var/cache/* "$1"/var/lib/dpkg/*-old "$1"/var/lib/apt/lists/* "$1"/etc/machine-id',
    'find "$1" -xdev -perm /6000 -type f -exec chmod ug-s {} +',
)


def hindrance() -> str | None:
    """Why no base can be made on this machine, in a few words; None if one can."""
    if not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        return "this is not Debian or Ubuntu"
    if os.geteuid() == 0:
        return None
    needs = "making one from Debian packages without root needs"
    if missing := [name for name, command in _WITHOUT_ROOT.items() if shutil.which(command) is None]:
        return f"{needs} {' and '.join(missing)} (as root: apt install {' '.join(missing)})"
    number = os.geteuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:
        user = str(number)
    for table in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = table.read_text("utf-8").splitlines() if table.exists() else []
        if not {user, str(number)} & {line.split(":")[0] for line in lines}:
            ids = "--add-subuids 100000-165535 --add-subgids 100000-165535"
            return f"{needs} subordinate ids (as root: usermod {ids} {user})"
    return None


def made_base(engine: DockerClient) -> str | None:
    """The newest base that was made here before by today's recipe, as ``repository:tag``."""
    with engine_errors("list the engine's images"):
        images = engine.api.images(filters={"reference": REPOSITORY, "label": f"{RECIPE_LABEL}={_recipe()}"})
    tagged = sorted((i for i in images if i.get("RepoTags")), key=lambda i: int(i["Created"]))
    return str(tagged[-1]["RepoTags"][0]) if tagged else None


def make_base(engine: DockerClient, progress: Progress) -> str:
    """Make a base and import it; returns ``trace-bench/debian:<12 digits of its identity>``. Takes half a
    minute.

    Raises:
        EnvironmentUnavailable: the packages cannot be had.
    """
    if (why := hindrance()) is not None:
        raise EnvironmentUnavailable(f"no base can be made here: {why}")
    _need_mmdebstrap(progress)
    progress("making a base from Debian packages (mmdebstrap, about half a minute)")
    with tempfile.TemporaryDirectory(prefix="trace-bench-base-") as folder:
        archive, listing = Path(folder) / "base.tar", Path(folder) / "packages"
        sources = _sources()
        hooks = [
            """chroot "$1" sh -c 'dpkg-query -W -f "\\${Package}=\\${Version}\\n" >/packages'""",
            f"download /packages {shlex.quote(str(listing))}",  # as the user, who may not be root
            'rm "$1"/packages',
            *_HOOKS,
        ]
        command = [
            "mmdebstrap", "--quiet", "--variant=minbase",
            f"--include={','.join(_INCLUDE)}", f"--hook-dir={_MERGED_USR}",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in _STRIP),
            *(f"--dpkgopt=path-include={pattern}" for pattern in _KEEP),
            *(f"--customize-hook={hook}" for hook in hooks),
            _codename(), str(archive), "-",
        ]  # fmt: skip
        _run([*_own_mounts(), *command], "make a base with mmdebstrap", stdin="\n".join(sources) + "\n")
        packages = sorted(listing.read_text("utf-8").split())
        identity = "packages:" + hashlib.sha256("\n".join([_recipe(), *packages]).encode()).hexdigest()
        tag = identity.removeprefix("packages:")[:12]
        progress(f"importing the base of {len(packages)} packages as {REPOSITORY}:{tag}")
        with engine_errors("import the base that was made"):
            changes = [f"LABEL {IDENTITY_LABEL}={identity}", f"LABEL {RECIPE_LABEL}={_recipe()}"]
            changes.append(f"ENV {ENVIRONMENT}")
            with archive.open("rb") as content:
                engine.api.import_image_from_data(content, repository=f"{REPOSITORY}:{tag}", changes=changes)
    return f"{REPOSITORY}:{tag}"


def gather_packages(engine: DockerClient, base: str, listed: Path, progress: Progress) -> list[Path]:
    """The packages named in `listed`, one a line, with what `base` lacks of what they depend on, downloaded.

    Raises:
        EnvironmentUnavailable: they cannot be had.
    """
    names = [name for line in listed.read_text("utf-8").splitlines() if (name := line.partition("#")[0].strip())]
    progress(f"gathering Debian packages: {', '.join(names)}")
    _sources()  # apt's lists
    archives = cache_home() / "debian"
    with (
        engine_errors(f"read the packages of {base}"),
        tempfile.TemporaryDirectory(prefix="trace-bench-apt-") as folder,
    ):
        status, none = Path(folder) / "status", Path(folder) / "archives"
        status.write_bytes(engine.containers.run(base, ["cat", "/var/lib/dpkg/status"], entrypoint="", remove=True,
                                                 network_mode="none", ulimits=few_limits()))  # fmt: skip

        def install(into: Path, *options: str) -> str:
            (into / "partial").mkdir(parents=True, exist_ok=True)
            settings = {
                "Dir::State::status": status, "Dir::State::extended_states": Path(folder) / "extended",
                "Dir::Cache::archives": into, "Debug::NoLocking": "true", "APT::Sandbox::User": "root",
            }  # fmt: skip
            return _run(["apt-get", *(f"-o{key}={value}" for key, value in settings.items()), "-qq", "-y",
                         "--no-install-recommends", *options, "install", *names],
                        f"download the Debian packages {', '.join(names)}")  # fmt: skip

        shown = install(none, "--print-uris")  # apt leaves out those that are there
        install(archives, "--download-only")
    return [archives / line.split()[1] for line in shown.splitlines() if line.startswith("'")]


def _recipe() -> str:
    """Hash of how bases are made, so that a base made otherwise is not taken for one of these."""
    text = repr((_codename(), platform.machine(), _INCLUDE, _EPOCH, _STRIP, _KEEP, _HOOKS))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _codename() -> str:
    try:
        return platform.freedesktop_os_release()["VERSION_CODENAME"]
    except (OSError, KeyError):
        return "unknown"


def _sources() -> list[str]:
    """One ``deb`` line for each suite of this release that this machine's apt knows, third parties left out."""
    codename = _codename()
    suites = {codename, f"{codename}-updates", f"{codename}-security"}
    listing = ["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]

    def known() -> list[str]:
        lines = _run(listing, "read this machine's apt sources").splitlines()
        return sorted({line for line in lines if line.split()[2] in suites and line.split()[3] in ("main", "universe")})

    lines = known()
    if not lines:  # apt shows what it has fetched, and slim images throw that away
        _run(["apt-get", "update", "-qq"], "update apt's lists")
        lines = known()
    if not any(f" {codename} " in line for line in lines):
        raise EnvironmentUnavailable(
            f"no base can be made: this machine's apt has no source for {codename} main; "
            "add one, or set TRACE_BENCH_BASE to an image with CPython 3.11 to 3.13"
        )
    return lines


def _need_mmdebstrap(progress: Progress) -> None:
    if shutil.which("mmdebstrap") is None:
        progress("installing mmdebstrap")
        _run(["apt-get", "update", "-qq"], "update apt's lists to install mmdebstrap")
        _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap"], "install mmdebstrap")


def _own_mounts() -> list[str]:
    """The beginning of a command line that gives a command its own mount namespace; empty where the kernel refuses one.

    What the command mounts then ends with it, however it ends. A mount that is left below a temporary folder would lead
    whatever removes the folder into /proc and /sys.
    """
    prefix = ["unshare", "--mount"]
    allowed = shutil.which(prefix[0]) and subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if allowed and allowed.returncode == 0 else []


def _run(command: list[str], doing: str, *, stdin: str = "") -> str:
    settings = {"SOURCE_DATE_EPOCH": _EPOCH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    # What runs under other ids could not go back into a folder that is closed to them.
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=os.environ | settings, cwd="/", check=False
    )
    if done.returncode != 0:
        last = " ".join(" ".join(done.stderr.split("\n")[-12:]).split())
        raise EnvironmentUnavailable(
            f"cannot {doing} (exit {done.returncode}: {last[-600:]}); "
            "set TRACE_BENCH_BASE to an image with CPython 3.11 to 3.13 instead"
        )
    return done.stdout
