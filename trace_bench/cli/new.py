"""Write the files of ``new``: a config, a task or a trainer from `SCAFFOLD`, and the tasks of a published data set."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir
from trace_bench.suites.base import Columns, MadeTasks

SCAFFOLD = Path(__file__).parent / "scaffold"
INTERACTIONS = ("solve", "policy")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(rf"{_NAME.pattern}(/{_NAME.pattern})*")
_CONTENT = (".py", ".toml", ".yaml")
_ANSWER = re.compile(r"^def answer\(.*?(?=^def )", re.MULTILINE | re.DOTALL)


def new_tasks(suite: str, source: Path, root: Path) -> MadeTasks:
    """Write the task folders that `suite` makes of the published data at `source` below `root`.

    Raises:
        ConfigError: the suite makes none, the data cannot be read, or one of the folders is there already.
    """
    from trace_bench.arguments import hint
    from trace_bench.suites.installed import suites_with

    makers = suites_with("new_tasks")
    if suite not in makers:
        raise ConfigError(f"the suite {suite!r} makes no tasks of published data{hint(suite, makers)}")
    made = makers[suite].new_tasks(source)
    for name in made.folders:
        if (root / name).exists():
            raise ConfigError(f"{root / name} is there already; remove it, or choose another --root")
    try:
        for name, files in made.folders.items():
            for file, text in files.items():
                _write(root / name / file, text)
    except ConfigError:
        for name in made.folders:  # else the same command would find them in its way
            shutil.rmtree(root / name, ignore_errors=True)
        raise
    return made


def new_config(path: Path) -> Path:
    """Write a commented config to `path`, which is returned. Editors find the schema in its first line.

    Raises:
        ConfigError: there is a file already, or it cannot be written.
    """
    if path.exists():
        raise ConfigError(f"{path} is there already; choose another name")
    text = (SCAFFOLD / "config.yaml").read_text(encoding="utf-8")
    schema = (data_dir("schemas") / "config.schema.json").resolve().as_uri()  # a blank would end the path
    return _write(path, _worded(text, {"config_file": shlex.quote(str(path)), "schema_address": schema}))


def new_task(name: str, root: Path, interaction: str = "solve") -> list[Path]:
    """Write the folder ``root/name`` of a task of the suite ``llm4ad``; return its files.

    Raises:
        ConfigError: the name is none, the interaction is unknown, or the folder is there and not empty.
    """
    last = _last(name)
    if interaction not in INTERACTIONS:
        raise ConfigError(f"--interaction {interaction}: there is no scaffold for it; give {' or '.join(INTERACTIONS)}")
    texts = _texts(SCAFFOLD / "task" / interaction)
    if own := texts.pop("answer.py", ""):  # the rest of the evaluator is that of solve
        shared = (SCAFFOLD / "task" / "solve" / "evaluator.py").read_text(encoding="utf-8")
        texts["evaluator.py"] = _ANSWER.sub(lambda _: own[own.index("def answer(") :] + "\n\n", shared)
    return _write_folder(texts, root / name, {"task_entry": last, "task_title": _title(last)})


def new_prompt_task(
    name: str, root: Path, source: Path, columns: Columns, *, metric: str = "exact", seed: int = 0
) -> list[Path]:
    """Write the folder ``root/name`` of a task that optimizes a prompt on the labelled examples in `source`; return its
    files.

    Raises:
        ConfigError: the name is invalid, the folder is not empty, or the examples cannot be used.
    """
    from trace_bench.suites.installed import suites_with

    suite = next(iter(suites_with("task_of_examples").values()))
    return _write_folder(suite.task_of_examples(source, columns, metric, seed, _title(_last(name))), root / name, {})


def new_function_task(
    name: str, root: Path, function: str, program: Path | None = None, direction: str = "maximize"
) -> list[Path]:
    """Write the folder ``root/name`` of a task whose programs are scored by `function` (``FILE:NAME``); return its
    files.

    Raises:
        ConfigError: the name is invalid, the folder is not empty, or a file does not define its function.
    """
    from trace_bench.cli.new_function import task_texts

    last = _last(name)
    return _write_folder(task_texts(function, program, direction, last, _title(last)), root / name, {})


def new_trainer(name: str, root: Path) -> list[Path]:
    """Write the package of a trainer with the class `name` in a folder of its own below `root`; return its files, the
    one at the top first.

    Raises:
        ConfigError: the name is none or taken, or the folder is there and not empty.
    """
    from trace_bench.resources import plug_ins
    from trace_bench.trainers.names import canonical
    from trace_bench.trainers.registry import GROUP

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f"{name!r} is no name for a trainer: give letters and digits, such as MySearch")
    if canonical(name) in {point.name for point in plug_ins(GROUP)}:
        raise ConfigError(f"there is a trainer {name} already; choose another name")
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if keyword.iskeyword(package) or importlib.util.find_spec(package) is not None:
        raise ConfigError(f"{name!r} would be the Python package {package!r}, which is taken; choose another name")
    words = {"TrainerName": name, "package_name": package, "package-name": package.replace("_", "-").strip("-")}
    return _write_folder(_texts(SCAFFOLD / "trainer"), root / package, words)


def _last(name: str) -> str:
    """The last word of the name of a task.

    Raises:
        ConfigError: the name is invalid.
    """
    last = name.rpartition("/")[2]
    if not _PATH.fullmatch(name) or keyword.iskeyword(last):
        raise ConfigError(
            f"{name!r} is no name for a task: give letters, digits and underscores, '/' between groups (my_group/sum)"
        )
    return last


def _texts(folder: Path) -> dict[str, str]:
    """The texts of a scaffold by their paths in it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix in _CONTENT)
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def _write_folder(texts: Mapping[str, str], folder: Path, words: Mapping[str, str]) -> list[Path]:
    """Write `texts` below `folder` with `words` replaced in texts and paths; return the files, those at the top first.

    Raises:
        ConfigError: the folder is there and not empty, or it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already and not empty; choose another name, or another --root")
    files = sorted(texts, key=lambda name: (name.count("/"), name))
    try:
        return [_write(folder / _worded(name, words), _worded(texts[name], words)) for name in files]
    except ConfigError:
        shutil.rmtree(folder, ignore_errors=True)  # half of it would be in the way of the next try
        raise


def _write(target: Path, text: str) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def _worded(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _title(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]
