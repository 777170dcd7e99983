"""Exit codes of the worker's own processes. The host reads those of the supervisor."""

from __future__ import annotations

SPAWNER_ENDED = 70
"""The spawner ended by an error, and the supervisor with it."""
SUPERVISOR_GONE = 71
"""Of a phase: the supervisor closed its end of the connection."""
SPAWNER_KILLED = 74
"""The spawner was killed by a signal. Only the kernel does that, when memory runs out."""
LEASE_ENDED = 75
"""No controller renewed the lease."""
HUNG_UP = 76
"""The host hung up before it sent a job."""
VOLUME_FULL = 77
"""There was no room for ``result.json``, not even in what was kept free for it."""
