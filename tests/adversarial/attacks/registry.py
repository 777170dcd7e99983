"""All attacks by name."""

from __future__ import annotations

from tests.adversarial.attacks import Attack, channel, exits, files, network, patching, processes, programs, values

_MODULES = (patching, channel, exits, files, network, processes, values, programs)
ATTACKS: dict[str, Attack] = {attack.name: attack for module in _MODULES for attack in module.ATTACKS}
KINDS: dict[str, tuple[Attack, ...]] = {module.__name__.rpartition(".")[2]: module.ATTACKS for module in _MODULES}
"""The attacks by what they abuse."""
assert len(ATTACKS) == sum(len(module.ATTACKS) for module in _MODULES), "two attacks have one name"
