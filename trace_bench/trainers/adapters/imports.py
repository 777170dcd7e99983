"""Imports frameworks without the packages that they declare and that are not used here."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from trace_bench.errors import TrainerError


class Unused:
    """Stands for whatever a framework names of a package that is not there. Making one is an error."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TrainerError("a framework used a package that is left out of its image; models are reached otherwise.")


def _stand_in(name: str) -> ModuleType:
    def attribute(attribute_name: str) -> type[Unused]:
        if attribute_name.startswith("__"):
            raise AttributeError(attribute_name)
        return Unused

    module = ModuleType(name)
    module.__dict__["__getattr__"] = attribute
    module.__dict__["__path__"] = []
    return module


@contextlib.contextmanager
def importing(framework: str, clients: Sequence[str] = (), missing: Sequence[str] = ()) -> Iterator[None]:
    """Import `framework` in here. `clients` are replaced by stand-ins while that lasts, `missing` where they are not
    installed. Afterwards `sys.modules` knows the stand-ins no more.

    Raises:
        TrainerError: something cannot be imported.
    """
    names = [*clients, *(name for name in missing if importlib.util.find_spec(name) is None)]
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update({name: _stand_in(name) for name in names})
    try:
        yield
    except ImportError as error:
        raise TrainerError(
            f"{framework} cannot be imported ({error}). Use the image of this trainer: `trace-bench images build` "
            "with the family that `validate` names."
        ) from error
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
