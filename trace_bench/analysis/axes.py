"""The axes in which two parts differ besides their scores.

They are shown before any number, because a difference with two possible causes cannot be put down to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.analysis.comparison_groups import MODEL, OPTIMIZER, PARAMETERS, TRAINER, UNIT, ComparisonGroup, Source
from trace_bench.artifacts.jsonio import loads
from trace_bench.display.text import quoted
from trace_bench.errors import ExitCode, TraceBenchError

NOTHING = "-"
NOT_KNOWN = "not known"
_SHOWN = 3
_LIMITS = ("job_timeout", "score_timeout", "sandbox")
_PATIENCE = ("timeout", "retries", "limits.")
"""Of a model: for how long, how often and how fast it is asked."""
_NOT_THE_MODEL = ("id", "api_key_env", "stream")


class UnfairComparison(TraceBenchError):
    """More than one axis differs, and that was not to be."""

    exit_code = ExitCode.JOB_FAILED


@dataclass(frozen=True)
class Axis:
    """One thing that differs. `counts`: it can change scores by itself; else `why` says what it follows from, or what
    it changes instead. `unknown`: it is not known whether it differs, and `why` names the missing file."""

    name: str
    baseline: str
    other: str
    counts: bool = True
    why: str = ""
    unknown: bool = False


def axes(baseline: ComparisonGroup, other: ComparisonGroup) -> list[Axis]:
    """The differences between two parts; one that follows from another axis does not count again.

    A trainer and its parameters are one axis: trainers share no parameters that could be held equal.
    """
    found = [*_of_jobs(baseline, other)]
    a, b = baseline.source, other.source
    if a is not b:
        found += _of_models(baseline, other, {axis.name for axis in found})
        found += _of_runs(baseline, other, {axis.name for axis in found})
        found += _config(a, b, [axis.name for axis in found if axis.counts])
        found += _unknown(a, b)
    return found


def warning(differing: Sequence[Axis], names: tuple[str, str]) -> str | None:
    """A sentence if more than one axis counts, or may."""
    counting = [axis.name for axis in differing if axis.counts]
    unknown = [f"{axis.name}: {axis.why}" for axis in differing if axis.unknown]
    who = " and ".join(repr(name) for name in names)
    sentences = []
    if len(counting) > 1:
        sentences.append(
            f"{who} differ in {len(counting)} axes ({', '.join(counting)}); no difference of scores can be put down to"
            " one of them"
        )
    if unknown:
        sentences.append(f"it is not known in what {who} differ besides ({'; '.join(unknown)})")
    return "; ".join(sentences) or None


def refusal(parts: Sequence[ComparisonGroup]) -> str | None:
    """A sentence if any part differs from the first in more than one axis that counts, or may."""
    found = [warning(axes(parts[0], part), (parts[0].name, part.name)) for part in parts[1:]]
    why = "; ".join(text for text in found if text)
    return f"{why}; leave out --strict to compare them nevertheless" if why else None


# ----------------------------------------------------------------------------------------------------- of the jobs


def _of_jobs(a: ComparisonGroup, b: ComparisonGroup) -> Iterable[Axis]:
    models = _models(a), _models(b)
    others = _same_names(*models)
    if set(models[0]) != set(models[1]) or others:
        yield Axis("model", _names(models[0]), _names(models[1]), why=others)
    trainers = set(a.jobs[TRAINER]), set(b.jobs[TRAINER])
    if trainers[0] != trainers[1]:
        yield Axis("trainer", _names(trainers[0]), _names(trainers[1]))
    yield from _parameters(a, b, trainers[0] & trainers[1], follows=not trainers[0] & trainers[1])
    yield from _tasks(a, b)
    seeds = set(a.jobs["seed"]), set(b.jobs["seed"])
    if seeds[0] != seeds[1]:
        yield Axis("seeds", _numbers(seeds[0]), _numbers(seeds[1]))
    hardware = [sorted(set(part.jobs["hardware"]) - {""}) for part in (a, b)]
    if all(hardware) and hardware[0] != hardware[1]:
        texts = ["; ".join(names) for names in hardware]
        yield _axis("machine", texts, why="scores of timing_sensitive tasks depend on it")


def _models(part: ComparisonGroup) -> dict[str, Any]:
    """By id: provider, model and sampling, as far as the lock records them."""
    known = {model.id: model.model_dump() for model in part.source.lock.models} if part.source.lock else {}
    return {name: known.get(name) for name in sorted(set(part.jobs["model"]))}


def _same_names(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The differences between models of one name, where both locks record them."""
    differing = [name for name in a if a[name] and b.get(name) and a[name] != b[name]]
    keys = {key for name in differing for key in a[name] if b[name].get(key) != a[name][key]}
    return f"{', '.join(sorted(keys))} of {_names(differing)}" if differing else ""


def _parameters(a: ComparisonGroup, b: ComparisonGroup, shared: set[str], *, follows: bool) -> Iterable[Axis]:
    """The parameters of the trainers that both parts have; where there are none, of all trainers."""
    keys = [OPTIMIZER, PARAMETERS]
    sides = []
    for part in (a, b):
        jobs = part.jobs[part.jobs[TRAINER].isin(shared)] if shared else part.jobs
        sides.append(set(jobs[[TRAINER, *keys]].drop_duplicates().itertuples(index=False, name=None)))
    if sides[0] == sides[1]:
        return
    texts = _different(sides[0], sides[1]) if shared else tuple(f"optimizer {_optimizers(side)}" for side in sides)
    yield _axis("parameters", texts, counts=not follows, why="follows from trainer" if follows else "")


def _different(a: set[tuple[str, str, str]], b: set[tuple[str, str, str]]) -> tuple[str, str]:
    """The parameters in which two configurations differ; of several configurations, their number."""
    if len(a) != 1 or len(b) != 1:
        only = [_optimizers(side) for side in (a, b)]
        extra = [f"; optimizer {text}" if only[0] != only[1] else "" for text in only]
        return f"{len(a)} variants{extra[0]}", f"{len(b)} variants{extra[1]}"
    flat = [_flat(next(iter(side))) for side in (a, b)]
    names = [name for name in {**flat[0], **flat[1]} if flat[0].get(name, NOTHING) != flat[1].get(name, NOTHING)]
    shown = names[:_SHOWN]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    first, second = ([f"{name}={side[name]}" for name in shown if name in side] for side in flat)
    return (", ".join(first) or NOTHING) + (more if first else ""), (", ".join(second) or NOTHING) + (
        more if second else ""
    )


def _optimizers(side: set[tuple[str, str, str]]) -> str:
    return _names({loads(optimizer)[0] for _, optimizer, _ in side})


def _flat(configuration: tuple[str, str, str]) -> dict[str, str]:
    optimizer, optimizer_kwargs = loads(configuration[1])
    params, guide, guide_kwargs = loads(configuration[2])
    named = {**params, "optimizer": optimizer, "guide": guide}
    named |= {f"optimizer.{key}": value for key, value in optimizer_kwargs.items()}
    named |= {f"guide.{key}": value for key, value in guide_kwargs.items()}
    return {key: _short(value) for key, value in named.items()}


def _tasks(a: ComparisonGroup, b: ComparisonGroup) -> Iterable[Axis]:
    units = set(a.jobs[UNIT]), set(b.jobs[UNIT])
    ids = set(a.jobs["task_id"]), set(b.jobs["task_id"])
    hashes = [part.source.lock.tasks if part.source.lock else {} for part in (a, b)]
    changed = [t for t in sorted(ids[0] & ids[1]) if t in hashes[0] and t in hashes[1] and hashes[0][t] != hashes[1][t]]
    if changed:
        yield _axis(
            "tasks", (_names([side[t][:8] for t in changed]) for side in hashes), why=f"content of {_names(changed)}"
        )
    if ids[0] != ids[1]:
        texts = [_names(own - others) + " only" if own - others else NOTHING for own, others in (ids, ids[::-1])]
        yield _axis("tasks", texts, counts=not changed, why=f"{len(units[0] & units[1])} in both")
    elif units[0] != units[1]:
        texts = [_names({unit.partition(" ")[2] for unit in own - others}) for own, others in (units, units[::-1])]
        yield _axis("tasks", texts, counts=not changed, why="eval_kwargs")


# ------------------------------------------------------------------------------------------------------ of the runs


def _of_runs(first: ComparisonGroup, second: ComparisonGroup, already: set[str]) -> Iterable[Axis]:
    a, b = first.source, second.source
    if a.lock and b.lock:
        if a.lock.sources_hash != b.lock.sources_hash:
            yield _axis("code", (f"{lock.code_version} ({lock.sources_hash[:8]})" for lock in (a.lock, b.lock)))
        yield from _images(a, b, already)
    yield from _settings("budgets", a, b, ("budget",), _prices(first, second))
    patience = _of_each_model(first, second, lambda key: key.startswith(_PATIENCE))
    sandboxes = [_sandboxes(part, set(first.jobs["task_id"]) & set(second.jobs["task_id"])) for part in (first, second)]
    yield from _settings("limits", a, b, _LIMITS, [own | more for own, more in zip(patience, sandboxes, strict=True)])
    yield from _settings("splits", a, b, ("splits",))
    yield from _settings("objective", a, b, ("objective",))
    if a.lock and b.lock:
        yield from _salt(a, b)
        if a.lock.packages != b.lock.packages:
            sides = (a.lock.packages, b.lock.packages)
            names = sorted(name for name in {**sides[0], **sides[1]} if sides[0].get(name) != sides[1].get(name))
            texts = [_names([f"{name} {side.get(name, NOTHING)}" for name in names]) for side in sides]
            local = any("local" in set(source.jobs["backend"]) for source in (a, b))
            why = "jobs of the local backend run in them" if local else "of the controller: no job runs in them"
            yield _axis("packages", texts, counts=local, why=why)
    if a.cpu_model and b.cpu_model and a.cpu_model != b.cpu_model and "machine" not in already:
        why = "scores of tasks that are sensitive to time may depend on it"
        yield Axis("machine", a.cpu_model, b.cpu_model, counts=False, why=why)


def _images(a: Source, b: Source, already: set[str]) -> Iterable[Axis]:
    assert a.lock and b.lock
    keys = [{family: image.key for family, image in source.lock.images.items()} for source in (a, b) if source.lock]
    common = {family for family in keys[0] if family in keys[1] and keys[0][family] != keys[1][family]}
    backends = [sorted(set(source.jobs["backend"]) - {""}) for source in (a, b)]
    elsewhere = bool(backends[0] and backends[1]) and backends[0] != backends[1]
    if common or elsewhere:
        texts = [_names(f"{family} {side[family][:19]}" for family in sorted(common)) for side in keys]
        if elsewhere:
            texts = [
                f"{', '.join(where)} {text}".strip(f" {NOTHING}") for where, text in zip(backends, texts, strict=True)
            ]
        yield Axis("images", texts[0], texts[1])
    elif set(keys[0]) != set(keys[1]):
        from_what = [name for name in ("trainer", "tasks") if name in already]
        texts = [_names(set(own) - set(others)) for own, others in (keys, keys[::-1])]
        yield _axis(
            "images", texts, counts=not from_what, why=f"follows from {', '.join(from_what)}" if from_what else ""
        )


def _settings(
    name: str, a: Source, b: Source, keys: Sequence[str], more: Sequence[Mapping[str, Any]] = ({}, {})
) -> Iterable[Axis]:
    """Of the configs, and `more` of each side. What only one version of the program knows is left out; what a whole
    run may spend changes no job that counts."""
    flat: list[dict[str, Any]] = [{}, {}]
    for side, source in enumerate((a, b)):
        for key in keys:
            if key in source.snapshot:
                flat[side] |= _leaves(source.snapshot[key], key)
    flat = [{key: value for key, value in side.items() if not key.startswith("budget.run")} for side in flat]
    names = [key for key in flat[0] if key in flat[1] and flat[0][key] != flat[1][key]]
    names += [key for key in {**flat[0], **flat[1]} if (key in flat[0]) != (key in flat[1]) and _set(flat, key)]
    names += [key for key in {**more[0], **more[1]} if more[0].get(key) != more[1].get(key)]
    flat = [{**side, **own} for side, own in zip(flat, more, strict=True)]
    if names:
        texts = [_names(f"{key}={_short(side.get(key))}" for key in sorted(names)) for side in flat]
        yield Axis(name, texts[0], texts[1])


def _set(flat: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Whether a key that one side lacks says something: a weight of an objective does, a default does not."""
    return any(side.get(key) not in (None, False, [], {}) for side in flat) and key.count(".") > 1


def _sandboxes(part: ComparisonGroup, tasks: set[str]) -> dict[str, Any]:
    """Settings of the sandboxes of single tasks that differ from those of the run."""
    names = tasks | {task.partition(":")[2] for task in tasks}
    entries = part.source.snapshot.get("tasks")
    found: dict[str, Any] = {}
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping) and str(entry.get("id")) in names and entry.get("sandbox"):
            name = f"sandbox of {entry['id']}"
            again = any(key.startswith(f"{name}.") for key in found)
            found |= _leaves(entry["sandbox"], f"{name} ({place + 1})" if again else name)
    return {key: value for key, value in found.items() if value is not None}


def _of_models(a: ComparisonGroup, b: ComparisonGroup, already: set[str]) -> Iterable[Axis]:
    """The endpoints of models of one name. Their other properties are in the lock, and are compared above."""
    sides = _of_each_model(a, b, lambda key: key not in _NOT_THE_MODEL and not key.startswith((*_PATIENCE, "prices")))
    if "model" not in already and sides[0] != sides[1]:
        names = sorted(key for key in {**sides[0], **sides[1]} if sides[0].get(key) != sides[1].get(key))
        texts = (_names([f"{key}={_short(side.get(key))}" for key in names]) for side in sides)
        yield _axis("model", texts, why="of one name")


def _of_each_model(a: ComparisonGroup, b: ComparisonGroup, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Settings in each config of the models that both parts use, as far as both versions of the program know them."""
    sides: list[dict[str, dict[str, Any]]] = []
    for part in (a, b):
        snapshot = part.source.snapshot
        several = snapshot.get("llms") or [snapshot.get("llm")]
        models = [one for one in several if isinstance(one, Mapping)] if isinstance(several, Sequence) else []
        sides.append({})
        for one in models:
            name = str(one.get("id") or one.get("model") or "")
            flat = {k.partition(".")[2]: value for k, value in _leaves(one, "llm").items()}
            sides[-1][name] = {key: value for key, value in flat.items() if wanted(key)}
    used = set(a.jobs[MODEL]) & set(b.jobs[MODEL])
    if any(len(side) == 1 for side in sides) and len(used) == 1:
        sides = [{next(iter(used)): next(iter(side.values()))} if len(side) == 1 else side for side in sides]
    found: list[dict[str, Any]] = [{}, {}]
    for name in sorted(used):
        one, two = (side.get(name, {}) for side in sides)
        for key in one:
            if key in two:
                found[0][f"{key} of {name}"], found[1][f"{key} of {name}"] = one[key], two[key]
    return found


def _prices(a: ComparisonGroup, b: ComparisonGroup) -> list[dict[str, Any]]:
    """Prices, where a budget in dollars depends on them. Without such a budget, prices change no score."""
    budgets = [part.source.snapshot.get("budget") for part in (a, b)]
    found: list[dict[str, Any]] = [{}, {}]
    if any(isinstance(budget, Mapping) and budget.get("usd") is not None for budget in budgets):
        used = set(a.jobs[MODEL]) & set(b.jobs[MODEL])
        for side, part in zip(found, (a, b), strict=True):
            prices = part.source.lock.prices if part.source.lock else {}
            for name in sorted(used & set(prices)):
                side |= _leaves(prices[name].model_dump(), f"prices of {name}")
    return found


def _unknown(a: Source, b: Source) -> Iterable[Axis]:
    """Axes that are not known because a run lacks the file that records them."""
    for name, file, missing in (
        ("code, images, content of tasks", a.layout.lock.name, [source.lock is None for source in (a, b)]),
        ("budgets, limits, splits, objective", a.layout.config_snapshot.name, [not s.snapshot for s in (a, b)]),
    ):
        if any(missing):
            texts = [NOT_KNOWN if lacking else "known" for lacking in missing]
            runs = " and ".join(
                source.layout.run_id for source, lacking in zip((a, b), missing, strict=True) if lacking
            )
            yield Axis(name, texts[0], texts[1], counts=False, why=f"{runs} has no {file}", unknown=True)


def _leaves(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            found |= _leaves(inner, f"{name}.{key}")
        return found
    return {name: value}


def _salt(a: Source, b: Source) -> Iterable[Axis]:
    assert a.lock and b.lock
    salts = a.lock.salt, b.lock.salt
    texts = ["known" if salt else "not known yet" for salt in salts]
    if not all(salts):
        yield _axis("held-out data", texts, counts=False, why="a run says how it drew it when it has ended")
    elif salts[0] != salts[1]:
        why = "every run draws it anew: pairs share task and seed, but not the held-out instances"
        yield _axis("held-out data", (f"salt {str(salt)[:8]}" for salt in salts), counts=False, why=why)


_EXPLAINED = {
    "tasks": "tasks", "eval_kwargs": "tasks", "trainers": "trainer or parameters",
    "trainer_kwargs": "trainer or parameters", "optimizer_kwargs": "trainer or parameters", "seeds": "seeds",
    "llm": "model", "llms": "model", "budget": "budgets", "splits": "splits", "objective": "objective",
    "job_timeout": "limits", "score_timeout": "limits", "sandbox": "limits", "backend": "images", "images": "images",
}  # fmt: skip
_NO_SCORE = {
    "name", "tags", "max_workers", "resume", "run_id", "runs_dir", "task_roots", "llm_cache", "retries",
    "fail_fast", "replay_from", "replay_services", "docker", "modal", "scheduling",
}  # fmt: skip


def _config(a: Source, b: Source, counting: Sequence[str]) -> Iterable[Axis]:
    """The whole config. It follows from the other axes, except for keys that have no axis of their own."""
    hashes = [source.manifest.config_hash if source.manifest else "" for source in (a, b)]
    if hashes[0] == hashes[1]:
        return
    sides = a.snapshot, b.snapshot
    differing = [key for key in sides[0] if key in sides[1] and sides[0][key] != sides[1][key]]
    own = [key for key in differing if key not in _EXPLAINED and key not in _NO_SCORE]
    texts = [
        _names(f"{key}={_short(side[key])}" for key in own) if own else hash_[:8]
        for side, hash_ in zip(sides, hashes, strict=True)
    ]
    if own:
        yield _axis("config", texts)
    else:
        harmless = sorted(key for key in differing if key in ("retries", "fail_fast", "name"))
        known = all(sides) and a.lock is not None and b.lock is not None
        nothing = "in nothing that changes a score" if known else "the difference is not known"
        why = f"follows from {', '.join(counting)}" if counting and known else nothing
        why += f"; {', '.join(harmless)} change no score" if harmless and counting else ""
        yield _axis("config", texts, counts=False, why=why)


# ---------------------------------------------------------------------------------------------------------- in short


def _axis(name: str, texts: Iterable[str], *, counts: bool = True, why: str = "") -> Axis:
    baseline, other = texts
    return Axis(name, baseline, other, counts, why)


def _names(values: Iterable[Any]) -> str:
    listed = list(values)
    if not isinstance(values, Sequence):
        listed = sorted(listed)
    shown = ", ".join(str(value) for value in listed[:_SHOWN])
    return (shown + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")) or NOTHING


def _numbers(values: Iterable[int]) -> str:
    """``1–5, 8`` of whole numbers."""
    pieces: list[list[int]] = []
    for value in sorted(int(value) for value in values):
        if pieces and value == pieces[-1][-1] + 1:
            pieces[-1].append(value)
        else:
            pieces.append([value])
    texts = [f"{piece[0]}–{piece[-1]}" if len(piece) > 1 else str(piece[0]) for piece in pieces]
    return ", ".join(texts[:6]) + (" …" if len(texts) > 6 else "")


def _short(value: Any) -> str:
    return quoted(value if isinstance(value, str) else repr(value) if value is not None else "none", 40)
