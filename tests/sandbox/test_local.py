"""What is peculiar to the local backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.sandbox.conformance import GRANDCHILD, SLEEP, Lab, content, read_until
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox import Resources, get_backend
from trace_bench.sandbox.errors import ControlMissing
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.local import STATE_DIR_VARIABLE, LocalBackend
from trace_bench.sandbox.uids import BLOCK, DEFAULT_BASE, SLOTS


def test_results_are_unprotected_and_no_control_is_claimed(local_lab: Lab) -> None:
    assert local_lab.backend.integrity == "unprotected"
    with local_lab.created(SLEEP) as sandbox:
        assert [control.name for control in sandbox.controls() if control.in_force] == []


def test_required_control_is_refused(local_lab: Lab) -> None:
    with pytest.raises(ControlMissing, match=r"cannot put in force: network. Use --backend docker"):
        local_lab.backend.create(local_lab.request(SLEEP, require_controls=frozenset({"network"})))


def test_a_name_is_used_again_and_an_id_is_not(local_lab: Lab) -> None:
    """By its id an audit knows an attempt that adopted the sandbox of the one before."""
    ids = set()
    for _ in range(2):
        sandbox = local_lab.backend.create(local_lab.request(SLEEP, name="twice"))
        ids.add(sandbox.id)
        sandbox.remove()
    assert len(ids) == 2


def test_module_of_this_package_runs_isolated_without_being_installed(local_lab: Lab, tmp_path: Path) -> None:
    command = ("python3", "-I", "-m", "trace_bench.sandbox.launcher", str(tmp_path / "none"))
    with local_lab.created("", command=command) as sandbox:
        sandbox.start()
        ended = sandbox.wait(20)
        assert ended is not None and ended.code == 1
        assert "none/spec.json" in sandbox.last_words()  # it ran, and missed its input


def test_limits_of_a_process_are_set(local_lab: Lab) -> None:
    code = (
        "import resource as r\n"
        "say(json.dumps([r.getrlimit(n) for n in (r.RLIMIT_NOFILE, r.RLIMIT_CORE, r.RLIMIT_FSIZE, r.RLIMIT_AS)]))\n"
    )
    limits = Resources(nofile=100, disk_bytes=5 << 20, tmp_bytes=4 << 20, memory_bytes=300 << 20)
    out, _, _ = local_lab.finished(code, resources=limits)
    assert json.loads(out) == [[100, 100], [0, 0], [5 << 20, 5 << 20], [300 << 20, 300 << 20]]


def test_nothing_of_ours_is_open_in_it(local_lab: Lab) -> None:
    with Path("/etc/hostname").open() as file:
        os.set_inheritable(file.fileno(), True)
        out, _, _ = local_lab.finished("say(json.dumps(sorted(os.listdir('/proc/self/fd'))))\n")
    assert len(json.loads(out)) == 4  # 0, 1, 2 and that of the listing


def test_launcher_killed_from_outside_is_an_end_without_a_code(local_lab: Lab) -> None:
    with local_lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        pid = json.loads((_folder(local_lab) / sandbox.name / "running.json").read_text())["pid"]
        os.kill(pid, 9)
        ended = sandbox.wait(20)
        assert ended is not None and ended.code is None and "killed from outside" in ended.error


def test_stopped_launcher_is_killed_with_all_below_it(local_lab: Lab) -> None:
    with local_lab.running(GRANDCHILD + "time.sleep(600)\n") as (sandbox, stream):
        read_until(stream, b"ready\n")
        pid = json.loads((_folder(local_lab) / sandbox.name / "running.json").read_text())["pid"]
        os.kill(pid, 19)
        from trace_bench.sandbox import local

        patience, local.KILL_SECONDS = local.KILL_SECONDS, 0.2
        try:
            sandbox.kill()
        finally:
            local.KILL_SECONDS = patience
        before = content(sandbox, "beat")
        time.sleep(0.3)
        assert content(sandbox, "beat") == before


def test_pid_that_was_given_to_another_process_is_not_ours(local_lab: Lab) -> None:
    with local_lab.created(SLEEP) as sandbox:
        other = subprocess.Popen(["sleep", "60"])
        try:
            running = _folder(local_lab) / sandbox.name / "running.json"
            running.write_text(json.dumps({"pid": other.pid, "start": 1}))
            found = local_lab.backend.find({JOB: sandbox.labels[JOB]})[0]
            assert found.status() == "exited"
            found.kill()
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()


def test_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(EnvironmentUnavailable, match=f"only you can write; set {STATE_DIR_VARIABLE}"):
        LocalBackend(tmp_path).check()


def test_state_folder_can_be_chosen_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    get_backend("local")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_locked_folders_do_not_keep_it_from_being_removed() -> None:
    """As an ordinary user, for whom rights mean something."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from trace_bench.sandbox.local import _remove_tree\n"
        "if os.getuid() == 0:\n    os.setgid(65534)\n    os.setuid(65534)\n"
        "root = Path(sys.argv[1])\n(root / 'a/b').mkdir(parents=True)\n(root / 'a/b/c').touch()\n"
        "(root / 'link').symlink_to('/')\n"
        "(root / 'a/b').chmod(0)\n(root / 'a').chmod(0)\n"
        "_remove_tree(root)\nassert not root.exists()\n"
    )
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o777)
        command = [sys.executable, "-c", script, f"{parent}/root"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def _folder(lab: Lab) -> Path:
    assert isinstance(lab.backend, LocalBackend)
    return lab.backend._root()


def test_no_controller_of_other_sandboxes_takes_the_slots_of_these(tmp_path: Path) -> None:
    """A slot's lock says that a controller is alive: one that died here must not seem alive for one elsewhere."""
    here, elsewhere = LocalBackend(tmp_path / "here"), LocalBackend(tmp_path / "elsewhere")
    bases = {here.default_uid_base, elsewhere.default_uid_base}
    assert len(bases) == 2 and min(bases) >= DEFAULT_BASE + SLOTS * BLOCK
    assert max(bases) + SLOTS * BLOCK <= 2**31
    assert here.default_uid_base == LocalBackend(tmp_path / "here").default_uid_base


def test_leased_cores_are_those_it_runs_on_and_stay_taken_while_it_runs(local_lab: Lab) -> None:
    core = max(os.sched_getaffinity(0))
    code = "say(str(sorted(os.sched_getaffinity(0))))\nsys.stdin.read()\n"
    backend = local_lab.backend
    assert isinstance(backend, LocalBackend)
    with local_lab.running(code, cpuset=(core,)) as (sandbox, stream):
        assert f"[{core}]" in read_until(stream, b"]\n").decode()
        assert backend.taken("").cores == {core} and backend.taken("").anything
        sandbox.kill()
        assert core not in backend.taken("").cores
