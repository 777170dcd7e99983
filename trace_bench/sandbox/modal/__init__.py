"""Sandboxes of Modal. See ``docs/design/modal-backend.md``."""

from trace_bench.sandbox.modal.backend import ModalBackend

__all__ = ["ModalBackend"]
