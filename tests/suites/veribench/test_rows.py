"""Tasks of published rows: what is made of them, what is left out, and what a real Lean says of the tests."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.suites.veribench.on_lean import ROWS, built, row_outcomes
from tests.suites.veribench.support import stand_in
from trace_bench.cli.new import new_tasks
from trace_bench.errors import ConfigError
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.veribench.asserted import MOST_CASES, Untestable, asserted
from trace_bench.suites.veribench.lean import VARIABLE
from trace_bench.suites.veribench.rows import task_folders

ROW_TABLE = [json.loads(line) for line in ROWS.read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rows")
    new_tasks("veribench", ROWS, root)
    return root


def test_rows_with_assertions_become_tasks_and_the_others_say_why_not() -> None:
    found = task_folders(ROWS)
    assert list(found.folders) == ["0_is_even", "1_first_longer", "6_task_6"]
    reasons = {name: reason[:33] for name, reason in found.left_out.items()}
    assert reasons == {
        "2_counter": "no function has annotations with ",
        "3_mean": "no function has annotations with ",
        "4_broken": "it is no Python that can be parse",
        "5_untested": "no assertion compares a call of a",
    }


@pytest.mark.parametrize("how", ["parquet", "folder of parquet", "folder of programs", "user_query alone"])
def test_all_forms_of_the_data_set_make_the_same_tasks(how: str, tmp_path: Path) -> None:
    table = ROW_TABLE[:2]
    source = tmp_path / "data"
    if how == "folder of programs":
        for number, row in enumerate(table):
            (source / row["category"]).mkdir(parents=True)
            (source / row["category"] / f"{chr(ord('a') + number)}.py").write_text(row["code"])
    elif how == "user_query alone":
        source = tmp_path / "data.jsonl"
        source.write_text("".join(json.dumps({**row, "code": None}) + "\n" for row in table))
    else:
        source.mkdir()
        pq.write_table(pa.Table.from_pylist(table), source / "train.parquet")
        source = source / "train.parquet" if how == "parquet" else source
    texts = sorted(files["template.lean"] for files in task_folders(source).folders.values())
    expected = [files["template.lean"] for files in task_folders(ROWS).folders.values()]
    assert texts == sorted(expected[:2])


def test_ids_are_names_and_numbers(made: Path) -> None:
    for written in ("veribench:0", "veribench:is_even", "veribench:0_is_even"):
        assert resolve(written, [made]).id == "veribench:0_is_even"
    assert resolve("veribench:task_6", [made]).id == "veribench:6_task_6"


def test_specs_are_whole_and_name_only_parts_that_there_are(made: Path) -> None:
    for folder in made.iterdir():
        spec = load_task_spec(folder)
        assert spec.lean is not None and spec.lean.weights == {"compiles": 0.1, "tests": 0.9}
        assert "theorems" not in spec.metrics and spec.lean.defines[0].startswith("Program.")


def test_tests_are_dealt_to_both_splits_and_are_not_in_the_program(made: Path) -> None:
    cases = tomllib.loads((made / "0_is_even" / "cases.toml").read_text())
    assert sorted(map(tuple, cases["train"] + cases["test"])) == [
        ("Program.is_even (-2)", "(true : Bool)"),
        ("Program.is_even (-3)", "(false : Bool)"),
        ("Program.is_even 0", "(true : Bool)"),
        ("Program.is_even 10", "(true : Bool)"),
        ("Program.is_even 7", "(false : Bool)"),
    ]
    program = (made / "0_is_even" / "program.py").read_text()
    assert "assert" not in program and "__main__" not in program and "def is_even" in program


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", ["0_is_even", "1_first_longer", "6_task_6"])
def test_templates_score_least_and_translations_all(
    name: str, split: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(stand_in(tmp_path)))
    with built(made / name) as problem:
        assert [each.score for each in row_outcomes(problem, made / name, split)] == [0.1, 1.0]


TYPES = [
    ("int", "3", "Int", "3"),
    ("int", "-3", "Int", "(-3)"),
    ("bool", "True", "Bool", "true"),
    ("str", r"'a\"b\\c\n\x01ü'", "String", r'"a\"b\\c\n\x01ü"'),
    ("list[int]", "[]", "List Int", "[]"),
    ("List[List[int]]", "[[1], []]", "List (List Int)", "[[1], []]"),
    ("Optional[int]", "None", "Option Int", "none"),
    ("int | None", "-1", "Option Int", "(some (-1))"),
    ("tuple[int, ...]", "(1, 2)", "List Int", "[1, 2]"),
    ("typing.Tuple[str, bool]", "('', False)", "String × Bool", '("", false)'),
    ("'list[tuple[int, str]]'", "[(1, 'x')]", "List (Int × String)", '[(1, "x")]'),
]


@pytest.mark.parametrize(("annotation", "value", "type_", "term"), TYPES, ids=[each[0] for each in TYPES])
def test_types_and_values_have_their_counterparts(annotation: str, value: str, type_: str, term: str) -> None:
    found = asserted(f"def f(x: {annotation}) -> {annotation}:\n    return x\n\nassert f({value}) == {value}\n")
    assert f"def f (x : {type_}) : {type_} := sorry" in found.template
    assert list(found.cases) == [(f"Program.f {term}", f"({term} : {type_})")]


@pytest.mark.parametrize(
    "program",
    [
        "def f(x: float) -> float:\n    return x\nassert f(1.5) == 1.5",
        "def f(x: set[int]) -> int:\n    return 1\nassert f({1}) == 1",
        "def f(x: int) -> int:\n    return x\nassert f(True) == 1",
        "def f(x: int) -> int:\n    return x\nassert f(2 * g()) == 1",
        "def f(x: int, y: int = 1) -> int:\n    return x\nassert f(2) == 1",
        "def f(*x: int) -> int:\n    return 1\nassert f(1) == 1",
        "def f(x):\n    return x\nassert f(1) == 1",
        "def f(x: int) -> int:\n    return x\nx = [0]\n" + "x = [x, x]\n" * 40 + "for y in x:\n    assert f(y) == y",
        "def f(x: str) -> int:\n    return 1\nassert f('\\ud800') == 1",
        "x = " + "(" * 5000,
        "\0",
    ],
)
def test_what_has_no_counterpart_is_left_out(program: str) -> None:
    with pytest.raises(Untestable):
        asserted(program)


def test_a_value_that_is_not_known_any_more_is_not_used() -> None:
    found = asserted(
        "def f(x: int) -> int:\n    return x\n"
        "def check(g):\n    n = 1\n    assert g(n) == 1\n    n = f(n)\n    assert g(n) == 2\n\ncheck(f)\n"
    )
    assert [call for call, _ in found.cases] == ["Program.f 1"]


def test_names_of_lean_are_avoided_and_tests_are_limited() -> None:
    found = asserted(
        "def macro(end: int) -> int:\n    return end\n\nfor i in range(3):\n    assert macro(i) == i\n"
        f"for i in {list(range(100))}:\n    assert macro(i) == i\n"
    )
    assert "def macro_ (end_ : Int) : Int := sorry" in found.template and len(found.cases) == MOST_CASES


def _sources(folder: Path) -> Iterator[tuple[str, Path, str]]:
    (folder / "no.parquet").write_bytes(b"PAR2")
    yield "no Parquet", folder / "no.parquet", "no.parquet: is not a Parquet file"
    (folder / "empty").mkdir()
    yield "empty folder", folder / "empty", "empty: holds no row; give a .parquet or .jsonl file"
    yield "missing", folder / "missing.jsonl", "missing.jsonl: does not exist; name a .parquet"
    for name, text, said in (
        ("no JSON", '{"code": "x = 1"}\n{', "line 2: is not a JSON object"),
        ("a list", "[1]", "line 1: is not a JSON object; a row has the columns"),
        ("no column", '{"text": "x"}', "line 1: has no Python program in 'code', nor in 'user_query'; it has text"),
        ("a number", '{"code": 1}', "line 1, code: is no text"),
    ):
        (folder / f"{name}.jsonl").write_text(text)
        yield name, folder / f"{name}.jsonl", said
    (folder / "latin.jsonl").write_bytes(b'{"code": "\xe9"}')
    yield "Latin-1", folder / "latin.jsonl", "latin.jsonl: is not UTF-8"


def test_data_that_cannot_be_read_has_one_sentence_with_its_place(tmp_path: Path) -> None:
    for name, source, said in _sources(tmp_path):
        with pytest.raises(ConfigError) as caught:
            task_folders(source)
        assert said in str(caught.value) and "\n" not in str(caught.value), name


def test_names_cannot_leave_the_folder_and_nothing_is_overwritten(tmp_path: Path) -> None:
    row = {**ROW_TABLE[0], "filename": "../../evil name.py"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    root = tmp_path / "made"
    assert list(new_tasks("veribench", tmp_path / "rows.jsonl", root).folders) == ["0_evil_name"]
    before = (root / "0_evil_name" / "task.toml").read_bytes()
    with pytest.raises(ConfigError, match="is there already; remove it"):
        new_tasks("veribench", tmp_path / "rows.jsonl", root)
    assert (root / "0_evil_name" / "task.toml").read_bytes() == before


def test_a_suite_without_published_data_says_so() -> None:
    with pytest.raises(ConfigError, match="the suite 'llm4ad' makes no tasks of published data"):
        new_tasks("llm4ad", ROWS, Path("nowhere"))
