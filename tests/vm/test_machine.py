"""Sandboxes on a machine as distributions ship them: systemd, cgroup v2, AppArmor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adversarial.attacks.registry import KINDS
from tests.integration.cli import cli, result_of, write_config
from tests.vm.machine import Machine

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.getfixturevalue(request.param)
    return found


def test_doctor_finds_what_the_machine_is(machine: Machine, elsewhere: Path) -> None:
    done = cli("doctor", "--json", home=elsewhere, **machine.env)
    assert done.returncode == 0, done.stdout
    info = json.loads(machine.docker("info", "--format", "{{json .}}"))
    assert (info["CgroupVersion"], info["CgroupDriver"]) == ("2", "systemd")
    assert "name=apparmor" in info["SecurityOptions"]
    assert '"cgroup_version": "2"' in done.stdout or "cgroup_version 2" in done.stdout


def test_smoke_has_the_ids_and_scores_of_another_kernel_and_apparmor_is_in_force(
    machine: Machine, images: Path, elsewhere: Path, tmp_path: Path
) -> None:
    rows = []
    smoke = ("run", "--config", "smoke.yaml", "--json", "--runs-dir")
    for home, env in ((images, {}), (elsewhere, machine.env)):
        done = cli(*smoke, str(tmp_path / str(len(rows))), home=home, timeout=1800, **env)
        assert done.returncode == 0, done.stderr
        rows.append(result_of(done.stdout)["jobs"])
    same = ("job_id", "status", "score_initial", "score_best", "score_final", "total_tokens", "integrity")
    for here, there in zip(*rows, strict=True):
        assert [here[key] for key in same] == [there[key] for key in same]
    metas = [json.loads(path.read_text()) for path in (tmp_path / "1").glob("*/jobs/*/job_meta.json")]
    assert len(metas) == 2
    assert [machine.left(folder.name) for folder in (tmp_path / "1").iterdir()] == [[]]
    for meta in metas:
        controls = {control["name"]: (control["in_force"], control["detail"]) for control in meta["controls"]}
        assert [name for name, (in_force, _) in controls.items() if not in_force] == []
        assert controls["apparmor"] == (True, "docker-default")


def test_a_run_may_require_every_control(machine: Machine, elsewhere: Path, tmp_path: Path) -> None:
    config = write_config(
        tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"require_controls": ["apparmor"]}
    )
    done = cli("run", "--config", str(config), home=elsewhere, timeout=900, **machine.env)
    assert done.returncode == 0, done.stderr


def test_every_control_holds_from_inside_and_outside(machine: Machine, elsewhere: Path) -> None:
    machine.pytest(elsewhere, "tests/integration/test_controls.py", "-k", "test_inside or test_outside")


def test_the_backend_does_what_every_backend_must(bookworm: Machine, elsewhere: Path) -> None:
    # Emulated processors stand still at times, and what passes meanwhile counts as used.
    chosen = "test_docker and not cpu_time"
    bookworm.pytest(elsewhere, "tests/sandbox/test_conformance.py", "-k", chosen)


def test_memory_processes_and_disk_that_are_used_up_are_told_by_evidence(bookworm: Machine, elsewhere: Path) -> None:
    """The kernel's account of memory is that of version 2."""
    bookworm.pytest(elsewhere, "tests/integration/test_hostile.py", "-k", "full_volume or fork_bomb or out_of_memory")


def test_no_score_can_be_forged(bookworm: Machine, elsewhere: Path) -> None:
    """Two attacks of each kind, each in one interaction: what differs from this host is the kernel."""
    chosen = [f"{attack.name}-{attack.interactions[0]}" for kind in KINDS.values() for attack in kind[:2]]
    said = bookworm.pytest(elsewhere, "tests/adversarial/test_scores.py", "-k", " or ".join(chosen))
    assert int(said.rpartition(" passed")[0].split()[-1]) >= len(chosen)


def test_a_job_is_adopted_after_its_controller_was_killed(bookworm: Machine, elsewhere: Path) -> None:
    bookworm.pytest(elsewhere, "tests/integration/test_interruption.py", "-k", "adopts or died_with")
