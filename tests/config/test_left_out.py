"""Parameters of the prototype's configs that have no effect here are left out, each with a warning."""

from __future__ import annotations

import pytest

from trace_bench.config.loader import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError


def _config(trainer: str, **variant: object) -> dict[str, object]:
    return {"tasks": ["internal:numeric_param"], "trainers": [{"id": trainer, "params_variants": [variant]}]}


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ({"dspy_optimizer": "simba", "max_demos": 4, "bsize": 8}, "max_demos"),
        ({"dspy_optimizer": "mipro", "max_labeled_demos": 0}, "max_labeled_demos"),
        ({"dspy_optimizer": "mipro", "max_bootstrapped_demos": 0, "num_candidates": 1}, "max_bootstrapped_demos"),
        ({"dspy_optimizer": "mipro", "auto": "light"}, "auto"),
        ({"auto": None}, "auto"),
        ({"dspy_optimizer": "gepa", "max_full_evals": 1}, "max_full_evals"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_left_out_with_a_warning(variant: dict[str, object], name: str) -> None:
    config = parse_config(_config("DSPyTrainer", **variant))
    assert name not in config.trainers[0].params_variants[0]
    (warning,) = config.warnings
    assert f"trainers[0].params_variants[0].{name} is left out: " in warning
    resolve(config)


def test_where_it_has_an_effect_it_stays() -> None:
    gepa = parse_config(_config("DSPyTrainer", dspy_optimizer="gepa", auto="medium"))
    demos = parse_config(_config("DSPyTrainer", dspy_optimizer="bootstrap", max_bootstrapped_demos=2))
    assert gepa.trainers[0].params_variants[0]["auto"] == "medium" and not gepa.warnings
    assert demos.trainers[0].params_variants[0]["max_bootstrapped_demos"] == 2 and not demos.warnings


def test_other_trainers_refuse_what_they_do_not_take() -> None:
    with pytest.raises(ConfigError, match="takes no 'max_demos'"):
        resolve(parse_config(_config("BasicSearch", max_demos=4)))


def test_the_prototypes_name_of_copro_chooses_it() -> None:
    config = parse_config(_config("DSPyCOPROTrainer", breadth=2))
    assert config.trainers[0].id == "DSPyTrainer" and config.trainers[0].knobs["dspy_optimizer"] == "copro"
    resolve(config)
