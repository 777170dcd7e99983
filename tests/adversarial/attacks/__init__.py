"""The attacks, by what they go for. A body is source in a string, so that nothing here can run by being imported.

A body defines either ``deed()``, which is done once, before the first answer, and after which the program answers
honestly; or ``attack(honest, *args)``, which answers each call. What an attack finds that it must not find, it says by
raising ``Leak``: its score is then not the honest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INTERACTIONS = ("solve", "policy", "fit")
HONEST, FAILED = "honest", "failed"
BY_HEART = "by heart"
"""It knows the data that the job's seed gives, and plays better than the honest program there; not on held-out data."""


@dataclass(frozen=True)
class Attack:
    """One attack and what is to come of it.

    Attributes:
        name: of the test.
        body: see above. Of a `whole` attack, the source as it is, without an honest program in it.
        outcome: of the examples that it answers, for all interactions or by interaction: its honest score, or the
            failure score.
        says: what the feedback of its failed examples must have in it.
        timeout_seconds: wall limit of a call; short where the attack is to hang.
        cpu_seconds: CPU limit of the process.
        by_guide: the guide opens it beside an honest state, for what no state can be.
        filler: with `times`, makes the source longer.
    """

    name: str
    body: str
    outcome: str | Mapping[str, str] = HONEST
    says: str = ""
    timeout_seconds: float = 20.0
    interactions: tuple[str, ...] = INTERACTIONS
    whole: bool = False
    cpu_seconds: float = 20.0
    by_guide: bool = False
    filler: str = ""
    times: int = 0

    def outcome_for(self, interaction: str) -> str:
        return self.outcome if isinstance(self.outcome, str) else self.outcome.get(interaction, HONEST)


PRELUDE = '''
class Leak(Exception):
    """Raised by an attack that got what it must not get."""

'''
_ONCE = """
_done = []
def {entry}(*args):
    if not _done:
        _done.append(1)
        try:
            deed()
        except Leak:
            raise
        except Exception:
            pass
    return honest(*args)
"""
_EACH = """
def {entry}(*args):
    return attack(honest, *args)
"""


def source_of(attack: Attack, entry: str, honest: str) -> str:
    """The attack as a program that defines `entry`, with the honest program of that task in it."""
    if attack.whole:
        return attack.body.replace("ENTRY", entry)
    way = _EACH if "def attack(" in attack.body else _ONCE
    return PRELUDE + attack.body.replace("ENTRY", entry) + honest + way.format(entry=entry)
