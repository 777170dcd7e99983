"""Reads back which controls of a container are in force: from what the engine says of it, not from what was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trace_bench.sandbox.base import CONTROLS, Control
from trace_bench.sandbox.container import CAPABILITIES, GPUS, NO_IPC, OUT, gpu_request, named_gpus
from trace_bench.sandbox.leases import cores_in, devices_in
from trace_bench.sandbox.runtimes import OCI_SECCOMP, applies_seccomp, is_gvisor, runtime_of

Facts = Mapping[str, Any]
Verdict = tuple[bool, str]

_SHARED = ("host", "container:")


def read_back(container: Facts, engine: Facts) -> list[Control]:
    """One `Control` per name of `CONTROLS`, in its order.

    Args:
        container: the engine's ``inspect`` of it.
        engine: the engine's ``info``.
    """
    found = []
    for name, wanted in CONTROLS.items():
        in_force, detail = _CHECKS[name](container, engine)
        known = name != "apparmor" or not _before_apparmor(container, engine)
        found.append(Control(name, wanted, in_force, detail, known))
    return found


def missing(controls: Iterable[Control], required: Iterable[str]) -> list[Control]:
    """Those of `required` that are known not to be in force."""
    names = frozenset(required)
    return [control for control in controls if control.name in names and control.known and not control.in_force]


def security_options(engine: Facts) -> dict[str, str]:
    """The engine's security options: ``{"seccomp": "profile=default", "userns": ""}``."""
    options = {}
    for text in engine.get("SecurityOptions") or []:
        name, _, rest = str(text).removeprefix("name=").partition(",")
        options[name] = rest
    return options


def _host(container: Facts) -> Facts:
    found = container.get("HostConfig")
    return found if isinstance(found, Mapping) else {}


def _labels(container: Facts) -> Mapping[str, str]:
    found = (container.get("Config") or {}).get("Labels")
    return found if isinstance(found, Mapping) else {}


def _security(container: Facts) -> list[str]:
    return [str(item) for item in _host(container).get("SecurityOpt") or []]


def _gvisor(container: Facts, engine: Facts) -> str:
    """Name of the container's runtime where that is gVisor's, else empty."""
    runtime = runtime_of(str(_host(container).get("Runtime") or ""), engine)
    return runtime if is_gvisor(runtime, engine) else ""


def _capability(name: object) -> str:
    return str(name).upper().removeprefix("CAP_")


def _network(container: Facts, engine: Facts) -> Verdict:
    mode = str(_host(container).get("NetworkMode", ""))
    return mode == "none", f"mode {mode or 'default'}"


def _capabilities(container: Facts, engine: Facts) -> Verdict:
    dropped = {_capability(name) for name in _host(container).get("CapDrop") or []}
    added = sorted(_capability(name) for name in _host(container).get("CapAdd") or [])
    return "ALL" in dropped and set(added) <= set(CAPABILITIES), " ".join(added) or "none"


def _no_new_privileges(container: Facts, engine: Facts) -> Verdict:
    options = _security(container)
    return any(item in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true") for item in options), (
        " ".join(options) or "no security options"
    )


def _mounts(container: Facts, engine: Facts) -> Verdict:
    mounts = [(str(m.get("Type")), str(m.get("Destination"))) for m in container.get("Mounts") or []]
    host = _host(container)
    disks = [mount for mount in mounts if mount[0] != "tmpfs"]
    others = bool(host.get("Binds") or host.get("VolumesFrom"))
    as_asked, gpus = _gpus(container)
    detail = ", ".join(f"{kind} {place}" for kind, place in mounts) or "none"
    return disks == [("volume", OUT)] and not others and as_asked, detail + gpus


def _gpus(container: Facts) -> Verdict:
    """Whether the engine was asked for those GPUs that the labels say, and for no other device; what to say of it."""
    own = _labels(container)
    label = str(own.get(GPUS, "0"))
    asked = int(label) if label.isdecimal() else 0
    names = devices_in(own)
    try:
        requests, nodes = named_gpus(names) if names else ([gpu_request(asked)] if asked else [], [])
    except ValueError:
        return False, "; devices of a label that names none"
    # An inspect fills in the keys that were not given.
    found = [{k: v for k, v in item.items() if v} for item in _host(container).get("DeviceRequests") or []]
    if found != requests or list(_host(container).get("Devices") or []) != nodes:
        return False, "; devices that were not asked for"
    if names:
        return len(names) == asked, f"; {'GPU' if asked == 1 else 'GPUs'} {', '.join(names)}"
    return True, f"; {asked} {'GPU was' if asked == 1 else 'GPUs were'} asked for" if asked else ""


def _namespaces(container: Facts, engine: Facts) -> Verdict:
    host = _host(container)
    modes = {key: str(host.get(key) or "") for key in ("PidMode", "UTSMode", "IpcMode", "UsernsMode", "NetworkMode")}
    shared = [f"{key} {mode}" for key, mode in modes.items() if mode.startswith(_SHARED)]
    if host.get("Privileged"):
        shared.append("privileged")
    own_users = "userns" in security_options(engine) or "rootless" in security_options(engine)
    return bool(host) and not shared, ", ".join(shared) or ("own" if own_users else "own, but uids are the host's")


def _seccomp(container: Facts, engine: Facts) -> Verdict:
    profile = security_options(engine).get("seccomp")
    if profile is None:
        return False, "the engine has no seccomp"
    gvisor = _gvisor(container, engine)
    if gvisor and not applies_seccomp(gvisor, engine):
        return False, f"{gvisor} answers system calls itself and is not told to apply a filter ({OCI_SECCOMP})"
    named = [item for item in _security(container) if item.startswith("seccomp")]
    return not named and "unconfined" not in profile, named[0] if named else profile or "default"


def _apparmor(container: Facts, engine: Facts) -> Verdict:
    profile = str(container.get("AppArmorProfile") or "")
    if "apparmor" not in security_options(engine):
        return False, "the host has no AppArmor"
    if gvisor := _gvisor(container, engine):
        return False, f"{gvisor} applies no AppArmor profile"
    if _before_apparmor(container, engine):
        return False, "the engine names the profile when it starts the container"
    return profile not in ("", "unconfined"), profile or "none"


def _before_apparmor(container: Facts, engine: Facts) -> bool:
    """True while the engine has not yet chosen a profile: it chooses and names one as it starts the container."""
    created = (container.get("State") or {}).get("Status") == "created"
    return created and "apparmor" in security_options(engine) and not _gvisor(container, engine)


def _read_only_root(container: Facts, engine: Facts) -> Verdict:
    found = bool(_host(container).get("ReadonlyRootfs"))
    return found, "read-only" if found else "writable"


def _memory(container: Facts, engine: Facts) -> Verdict:
    limit = int(_host(container).get("Memory") or 0)
    return limit > 0 and bool(engine.get("MemoryLimit", True)), f"{limit} bytes"


def _swap(container: Facts, engine: Facts) -> Verdict:
    limit = int(_host(container).get("MemorySwap") or 0)
    memory = int(_host(container).get("Memory") or 0)
    if not engine.get("SwapLimit", True):
        return False, "the host cannot limit swap"
    return limit == memory > 0, f"memory and swap {limit} bytes"


def _cpus(container: Facts, engine: Facts) -> Verdict:
    nano = int(_host(container).get("NanoCpus") or 0)
    limited = nano > 0 and bool(engine.get("CpuCfsQuota", True))
    cores = str(_host(container).get("CpusetCpus") or "")
    leased = ",".join(map(str, cores_in(_labels(container))))
    if leased and not engine.get("CPUSet", True):
        return False, "the host cannot keep a container to cores"
    return limited and cores == leased, f"{nano / 1e9:g}" + (f", on cores {cores}" if cores else "")


def _pids(container: Facts, engine: Facts) -> Verdict:
    limit = int(_host(container).get("PidsLimit") or 0)
    gvisor = _gvisor(container, engine)
    detail = (
        f"{limit} threads of {gvisor} on the host; inside, each uid has a limit of its own" if gvisor else str(limit)
    )
    return limit > 0 and bool(engine.get("PidsLimit", True)), detail


def _ulimit(container: Facts, name: str) -> int | None:
    for item in _host(container).get("Ulimits") or []:
        if item.get("Name") == name:
            return int(item.get("Hard", -1))
    return None


def _nofile(container: Facts, engine: Facts) -> Verdict:
    limit = _ulimit(container, "nofile")
    return limit is not None and limit > 0, str(limit)


def _core(container: Facts, engine: Facts) -> Verdict:
    limit = _ulimit(container, "core")
    return limit == 0, str(limit)


def _tmpfs_flags(container: Facts) -> dict[str, set[str]]:
    return {place: set(str(text).split(",")) for place, text in (_host(container).get("Tmpfs") or {}).items()}


def _tmpfs(container: Facts, engine: Facts) -> Verdict:
    found = _tmpfs_flags(container)
    good = set(found) == {"/tmp", "/run"} and all(
        {"nosuid", "nodev"} <= flags and any(flag.startswith("size=") for flag in flags) for flags in found.values()
    )
    detail = "; ".join(f"{place} {','.join(sorted(flags))}" for place, flags in sorted(found.items()))
    return good, detail or "none"


def _noexec(container: Facts, engine: Facts) -> Verdict:
    found = _tmpfs_flags(container)
    return bool(found) and all("noexec" in flags for flags in found.values()), ", ".join(sorted(found))


def _ipc(container: Facts, engine: Facts) -> Verdict:
    mode = str(_host(container).get("IpcMode") or "")
    off = (_host(container).get("Sysctls") or {}).items() >= NO_IPC.items()
    if gvisor := _gvisor(container, engine):
        return (
            False,
            f"{gvisor} heeds no such sysctl; /dev/shm is uid 0's, and candidates' own filter refuses the calls",
        )
    return mode == "none" and off, f"mode {mode or 'default'}, queues {'off' if off else 'on'}"


def _init(container: Facts, engine: Facts) -> Verdict:
    found = bool(_host(container).get("Init"))
    return found, str(engine.get("InitBinary") or "docker-init") if found else "none"


def _log_cap(container: Facts, engine: Facts) -> Verdict:
    log = _host(container).get("LogConfig") or {}
    options = log.get("Config") or {}
    kind = str(log.get("Type"))
    size = str(options.get("max-size") or "")
    return kind == "none" or (kind in ("local", "json-file") and bool(size)), f"{kind} {size}".strip()


def _user(container: Facts, engine: Facts) -> Verdict:
    user = str((container.get("Config") or {}).get("User") or "")
    options = security_options(engine)
    mapped = [name for name in ("rootless", "userns") if name in options]
    where = f"an ordinary uid of the host ({mapped[0]})" if mapped else "uid 0 of the host without its capabilities"
    return user in ("0", "0:0"), f"{user or 'as the image says'}, which is {where}"


def _disk(container: Facts, engine: Facts) -> Verdict:
    largest = _ulimit(container, "fsize")
    for mount in _host(container).get("Mounts") or []:
        options = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Options") or {}
        if mount.get("Target") == OUT and options.get("size"):
            return True, f"quota {options['size']} bytes"
    if largest is None:
        return False, "none"
    return True, f"watcher in the supervisor; no single file beyond {largest} bytes"


def _runtime(container: Facts, engine: Facts) -> Verdict:
    runtime = runtime_of(str(_host(container).get("Runtime") or ""), engine)
    known = engine.get("Runtimes") or {}
    return runtime in known, runtime or "unknown"


_CHECKS: Mapping[str, Callable[[Facts, Facts], Verdict]] = {
    "network": _network,
    "capabilities": _capabilities,
    "no_new_privileges": _no_new_privileges,
    "mounts": _mounts,
    "namespaces": _namespaces,
    "seccomp": _seccomp,
    "apparmor": _apparmor,
    "read_only_root": _read_only_root,
    "memory": _memory,
    "swap": _swap,
    "cpus": _cpus,
    "pids": _pids,
    "nofile": _nofile,
    "core": _core,
    "tmpfs": _tmpfs,
    "noexec": _noexec,
    "ipc": _ipc,
    "init": _init,
    "log_cap": _log_cap,
    "user": _user,
    "disk": _disk,
    "runtime": _runtime,
}
