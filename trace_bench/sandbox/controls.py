"""Reads back which controls of a container are in force: from the engine's report, not from the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trace_bench.sandbox.base import CONTROLS, Control
from trace_bench.sandbox.container import CAPABILITIES, GPUS, NO_IPC, OUT, gpu_request, named_gpus
from trace_bench.sandbox.leases import cores_in, devices_in
from trace_bench.sandbox.runtimes import OCI_SECCOMP, applies_seccomp, is_gvisor, runtime_of

Facts = Mapping[str, Any]
Verdict = tuple[bool, str]
"""Whether a control is in force, and the detail."""

NOT_YET = "NotYet"
"""Key of an inspection: names of controls that it cannot have before the container has started."""
_SHARED = ("host", "container:")
_NO_NEW_PRIVILEGES = {"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"}


def read_back(container: Facts, engine: Facts) -> list[Control]:
    """One `Control` per name of `CONTROLS`, in its order.

    Args:
        container: the engine's ``inspect`` of it.
        engine: the engine's ``info``.
    """
    verdicts = {
        **_isolation(container, engine),
        **_kernel_filters(container, engine),
        **_limits(container, engine),
        **_folders(container, engine),
    }
    later = {*container.get(NOT_YET, ()), *(["apparmor"] if _profile_is_unnamed(container, engine) else [])}
    return [Control(name, wanted, *verdicts[name], known=name not in later) for name, wanted in CONTROLS.items()]


def missing(controls: Iterable[Control], required: Iterable[str]) -> list[Control]:
    """Those of `required` that are known not to be in force."""
    names = frozenset(required)
    return [control for control in controls if control.name in names and control.known and not control.in_force]


def security_options(engine: Facts) -> dict[str, str]:
    """The engine's security options: ``{"seccomp": "profile=default", "userns": ""}``. Podman says elsewhere that it is
    rootless."""
    options = {"rootless": ""} if engine.get("Rootless") else {}
    for text in engine.get("SecurityOptions") or []:
        name, _, rest = str(text).removeprefix("name=").partition(",")
        options[name] = rest
    return options


def _isolation(container: Facts, engine: Facts) -> dict[str, Verdict]:
    host = _host(container)
    modes = {key: str(host.get(key) or "") for key in ("PidMode", "UTSMode", "IpcMode", "UsernsMode", "NetworkMode")}
    shared = [f"{key} {mode}" for key, mode in modes.items() if mode.startswith(_SHARED)]
    shared += ["privileged"] if host.get("Privileged") else []
    mapped = [name for name in ("rootless", "userns") if name in security_options(engine)]
    dropped, added = ({_capability(name) for name in host.get(key) or []} for key in ("CapDrop", "CapAdd"))
    user = str((container.get("Config") or {}).get("User") or "")
    root = f"an ordinary uid of the host ({mapped[0]})" if mapped else "uid 0 of the host without its capabilities"
    runtime = runtime_of(str(host.get("Runtime") or ""), engine)
    init = bool(host.get("Init"))
    network = modes["NetworkMode"]
    return {
        "network": (network == "none", f"mode {network or 'default'}"),
        "capabilities": ("ALL" in dropped and added <= set(CAPABILITIES), " ".join(sorted(added)) or "none"),
        "namespaces": (
            bool(host) and not shared,
            ", ".join(shared) or ("own" if mapped else "own, but uids are the host's"),
        ),
        "user": (user in ("0", "0:0"), f"{user or 'as the image says'}, which is {root}"),
        "runtime": (runtime in (engine.get("Runtimes") or {}), runtime or "unknown"),
        "init": (init, str(engine.get("InitBinary") or "docker-init") if init else "none"),
    }


def _kernel_filters(container: Facts, engine: Facts) -> dict[str, Verdict]:
    options = [str(item) for item in _host(container).get("SecurityOpt") or []]
    return {
        "no_new_privileges": (bool(_NO_NEW_PRIVILEGES & set(options)), " ".join(options) or "no security options"),
        "seccomp": _seccomp(container, engine, options),
        "apparmor": _apparmor(container, engine),
        "ipc": _ipc(container, engine),
    }


def _seccomp(container: Facts, engine: Facts, options: Iterable[str]) -> Verdict:
    profile = security_options(engine).get("seccomp")
    if profile is None:
        return False, "the engine has no seccomp"
    gvisor = _gvisor(container, engine)
    if gvisor and not applies_seccomp(gvisor, engine):
        return False, f"{gvisor} answers system calls itself and is not configured to apply a filter ({OCI_SECCOMP})"
    named = [item for item in options if item.startswith("seccomp")]
    return not named and "unconfined" not in profile, named[0] if named else profile or "default"


def _apparmor(container: Facts, engine: Facts) -> Verdict:
    profile = str(container.get("AppArmorProfile") or "")
    if "apparmor" not in security_options(engine):
        return False, "the host has no AppArmor"
    if gvisor := _gvisor(container, engine):
        return False, f"{gvisor} applies no AppArmor profile"
    if _profile_is_unnamed(container, engine):
        return False, "the engine names the profile when it starts the container"
    return profile not in ("", "unconfined"), profile or "none"


def _profile_is_unnamed(container: Facts, engine: Facts) -> bool:
    """Whether the engine has not chosen an AppArmor profile yet: it does so when it starts the container."""
    created = (container.get("State") or {}).get("Status") == "created"
    return created and "apparmor" in security_options(engine) and not _gvisor(container, engine)


def _ipc(container: Facts, engine: Facts) -> Verdict:
    if gvisor := _gvisor(container, engine):
        return (
            False,
            f"{gvisor} ignores such sysctls; /dev/shm is uid 0's, and candidates' own filter refuses the calls",
        )
    mode = str(_host(container).get("IpcMode") or "")
    off = (_host(container).get("Sysctls") or {}).items() >= NO_IPC.items()
    return mode == "none" and off, f"mode {mode or 'default'}, queues {'off' if off else 'on'}"


def _limits(container: Facts, engine: Facts) -> dict[str, Verdict]:
    host = _host(container)
    memory, swap, pids, nano = (int(host.get(k) or 0) for k in ("Memory", "MemorySwap", "PidsLimit", "NanoCpus"))
    gvisor = _gvisor(container, engine)
    threads = f" threads of {gvisor} on the host; inside, each uid has a limit of its own" if gvisor else ""
    ulimits = {item.get("Name"): int(item.get("Hard", -1)) for item in host.get("Ulimits") or []}
    nofile, core = ulimits.get("nofile"), ulimits.get("core")
    log = host.get("LogConfig") or {}
    kind, size = str(log.get("Type")), str((log.get("Config") or {}).get("max-size") or "")
    capped = kind == "none" or (kind in ("local", "json-file") and bool(size))
    cores = str(host.get("CpusetCpus") or "")
    leased = ",".join(map(str, cores_in(_labels(container))))
    cpus = nano > 0 and bool(engine.get("CpuCfsQuota", True)) and cores == leased
    return {
        "memory": (memory > 0 and bool(engine.get("MemoryLimit", True)), f"{memory} bytes"),
        "swap": (swap == memory > 0, f"memory and swap {swap} bytes")
        if engine.get("SwapLimit", True)
        else (False, "the host cannot limit swap"),
        "cpus": (False, "the host cannot keep a container to cores")
        if leased and not engine.get("CPUSet", True)
        else (cpus, f"{nano / 1e9:g}" + (f", on cores {cores}" if cores else "")),
        "pids": (pids > 0 and bool(engine.get("PidsLimit", True)), f"{pids}{threads}"),
        "nofile": (nofile is not None and nofile > 0, str(nofile)),
        "core": (core == 0, str(core)),
        "log_cap": (capped, f"{kind} {size}".strip()),
        "disk": _disk(container, ulimits.get("fsize")),
    }


def _disk(container: Facts, largest: int | None) -> Verdict:
    for mount in _host(container).get("Mounts") or []:
        options = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Options") or {}
        if mount.get("Target") == OUT and options.get("size"):
            return True, f"quota {options['size']} bytes"
    if largest is None:
        return False, "none"
    return True, f"watcher in the supervisor; no single file beyond {largest} bytes"


def _folders(container: Facts, engine: Facts) -> dict[str, Verdict]:
    host = _host(container)
    mounts = [(str(m.get("Type")), str(m.get("Destination"))) for m in container.get("Mounts") or []]
    disks = [mount for mount in mounts if mount[0] != "tmpfs"]
    others = bool(host.get("Binds") or host.get("VolumesFrom"))
    as_asked, gpus = _gpus(container)
    tmpfs = {folder: set(str(text).split(",")) for folder, text in (host.get("Tmpfs") or {}).items()}
    sized = set(tmpfs) == {"/tmp", "/run"} and all(
        {"nosuid", "nodev"} <= flags and any(flag.startswith("size=") for flag in flags) for flags in tmpfs.values()
    )
    listed = "; ".join(f"{folder} {','.join(sorted(flags))}" for folder, flags in sorted(tmpfs.items()))
    noexec = bool(tmpfs) and all("noexec" in flags for flags in tmpfs.values())
    read_only = bool(host.get("ReadonlyRootfs"))
    return {
        "mounts": (
            disks == [("volume", OUT)] and not others and as_asked,
            (", ".join(f"{kind} {folder}" for kind, folder in mounts) or "none") + gpus,
        ),
        "tmpfs": (sized, listed or "none"),
        "noexec": (noexec, ", ".join(sorted(tmpfs))),
        "read_only_root": (read_only, "read-only" if read_only else "writable"),
    }


def _gpus(container: Facts) -> Verdict:
    """Whether the engine was asked for the GPUs that the labels name, and for no other device."""
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


def _host(container: Facts) -> Facts:
    found = container.get("HostConfig")
    return found if isinstance(found, Mapping) else {}


def _labels(container: Facts) -> Mapping[str, str]:
    found = (container.get("Config") or {}).get("Labels")
    return found if isinstance(found, Mapping) else {}


def _gvisor(container: Facts, engine: Facts) -> str:
    """Name of the container's runtime if that is gVisor's, else empty."""
    runtime = runtime_of(str(_host(container).get("Runtime") or ""), engine)
    return runtime if is_gvisor(runtime, engine) else ""


def _capability(name: object) -> str:
    return str(name).upper().removeprefix("CAP_")
