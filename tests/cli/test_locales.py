"""Names of files that are not English, in locales that are not UTF-8."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.analysis.folders import RUN, make_run, row
from tests.integration.cli import Done, started, write_config

ASCII = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
"""Python's own choice of UTF-8 in this locale is turned off."""
NAME = "größe"


def checked(folder: Path, *arguments: str, **env: str) -> Done:
    config = write_config(folder, tasks=["internal:numeric_param"], trainers=["NoOp"], backend="local")
    done = started("run", str(config), "--dry-run", *arguments, **env)
    assert "Traceback" not in done.stderr
    return done


def test_a_path_with_umlauts_works_in_a_locale_that_has_none(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    make_run(folder / "läufe", RUN, rows=[row(0)])
    done = started("ls", "--runs-dir", "läufe", cwd=folder, **ASCII)
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith(RUN), done.stderr
    done = checked(folder, "--runs-dir", str(folder / "läufe"), **ASCII)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_utf_8_is_refused_with_the_locale(tmp_path: Path) -> None:
    done = checked(tmp_path, "--runs-dir", "l\udce4ufe", LC_ALL="C.UTF-8")
    assert done.returncode == 2
    assert "runs_dir is not valid text in this locale (LC_ALL=C.UTF-8, utf-8); set a UTF-8 locale" in done.stderr


@pytest.mark.skipif(shutil.which("localedef") is None, reason="localedef makes locales here")
def test_a_name_that_a_locale_cannot_write_is_refused_with_the_locale(tmp_path: Path) -> None:
    locale = "de_DE.ISO-8859-1"
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(tmp_path / locale)], capture_output=True)
    if made.returncode != 0:
        pytest.skip("there are no sources of locales")
    latin = {"LC_ALL": locale, "LOCPATH": str(tmp_path), "PYTHONUTF8": "0"}
    assert checked(tmp_path, "--runs-dir", str(tmp_path / "läufe"), **latin).returncode == 0
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], backend="local")
    config.write_text(config.read_text().replace(f"{tmp_path}/runs", f"{tmp_path}/目"))
    done = started("run", str(config), **latin)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert f"cannot be the name of a file in this locale (LC_ALL={locale}, iso8859-1)" in done.stderr
