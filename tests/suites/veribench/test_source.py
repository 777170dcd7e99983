"""What the text of a candidate may not hold, and that honest texts are let through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.veribench.support import FOLDERS
from trace_bench.suites.veribench.source import refusal

REFUSED = [
    ("axiom trick : False", "an axiom proves anything"),
    ("def a := 1\n\naxiom trick : a = 2", "an axiom proves anything"),
    ("@[simp] private axiom trick : False", "an axiom proves anything"),
    ("opaque f : Nat", "nothing can be proved or tested about an opaque constant"),
    ("partial def f (n : Nat) : Nat := f n", "nothing can be proved about a partial definition"),
    ("unsafe def f : Nat := 1", "unsafe code can break"),
    ("@[implemented_by g] def f : Nat := 1", "compiled code differ"),
    ('@[extern "f"] def f : Nat := 1', "compiled code differ"),
    ("attribute [csimp] trick", "compiled code differ"),
    ("@[simp, export f_c] def f : Nat := 1", "compiled code differ"),
    ("macro_rules | `($a = $b) => `(True)", "changes the language"),
    ('macro "f" : term => `(1)', "changes the language"),
    ('notation "f" => 1', "changes the language"),
    ('local infixl:50 " = " => fun _ _ => True', "changes the language"),
    ('syntax "f" : term', "changes the language"),
    ('elab "f" : tactic => pure ()', "changes the language"),
    ("unif_hint (n : Nat) where n ≟ 1 |- n ≟ 2", "changes the language"),
    ("set_option debug.skipKernelTC true", "may change what is checked"),
    ("set_option compiler.extract_closed false in\ndef f := 1", "may change what is checked"),
    ('#eval IO.println "all tests passed"', "runs code while the file is compiled"),
    ("#exit", "runs code while the file is compiled"),
    ("initialize counter : IO.Ref Nat ← IO.mkRef 0", "runs code while the file is compiled"),
    ("@[init setUp] opaque_ : Nat", "runs code while the file is compiled"),
    ("run_cmd pure ()", "runs code while the file is compiled"),
    ("theorem t : True := by run_tac pure ()", "runs code while the file is compiled"),
    ('def s := s!"{by_elab pure x}"', "runs code while the file is compiled"),
    ("simproc trick (1 + 1) := fun _ => pure .continue", "runs code while the file is compiled"),
    ('def secret := include_str "/etc/passwd"', "it reads a file"),
    ("import Lean\ndef f := 1", "may import nothing but Init"),
    ("prelude\ndef f := 1", "takes away what tests need"),
    ("theorem TraceBench.train_1 : True := trivial", "namespace of the tests"),
    ("namespace TraceBench\ntheorem train_1 : True := trivial", "namespace of the tests"),
    ("def f := 1\n/- the rest is hidden", "a comment is not closed"),
    ("def f := 1\n/-- a /- b -/ c", "a comment is not closed"),
    ('def f := "the rest is hidden', "a text in quotes is not closed"),
    ("def «axiom» := 1", "an axiom proves anything"),
]
HONEST = [
    "import Init\n/-- A macro, an axiom and #eval in a comment. -/\ndef f (init : Nat) : Nat := init",
    'def f : String := "axiom /- macro"\ntheorem f_eq : f = f := rfl',
    "def f : List Char := ['a', '\\'', '\"', '\\n']\ndef f' (x' : Nat) : Nat := x'",
    'def f : String := r#"a " quote, and sorry"#',
    "set_option maxRecDepth 2000 in\ntheorem t : 1 = 1 := rfl\n#check t",
    "structure prefixed where\n  partiality : Nat\n/- a /- nested -/ comment -/",
    "def f (xs : List Nat) : Nat := xs.foldl (init := 0) fun a b => a + b",
    'def shown (n : Nat) : String := s!"{n} of {n + 1}"',
    "theorem t (p : Prop) : p → p := by sorry",
]


@pytest.mark.parametrize(("source", "said"), REFUSED, ids=[source[:28] for source, _ in REFUSED])
def test_refused_with_a_sentence(source: str, said: str) -> None:
    found = refusal(f"def first := 0\n{source}" if "import" not in source and "prelude" not in source else source)
    assert found is not None and said in found.reason


@pytest.mark.parametrize("source", HONEST, ids=[source[:28] for source in HONEST])
def test_honest_texts_pass(source: str) -> None:
    assert refusal(source) is None


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_starter_files_pass(folder: Path) -> None:
    for name in ("template", "gold", "partial"):
        assert refusal((folder / f"{name}.lean").read_text()) is None, name


def test_the_line_is_told() -> None:
    found = refusal("def f := 1\n\n-- axiom\naxiom trick : False\n")
    assert found is not None and found.line == 4


def test_more_imports_may_be_allowed() -> None:
    source = "import Mathlib.Data.Nat.Basic\nimport Std\ndef f := 1"
    assert refusal(source, frozenset({"Mathlib", "Std"})) is None
    assert refusal(source, frozenset({"Mathlib"})) is not None
