"""``python -m tests.modal_server --port 5000 --state FOLDER``: a server apart from the test process.

It prints its URL and serves until SIGTERM or SIGINT, which leave the sandboxes running, as SIGKILL does; started again
on the same port and state, it finds them. SIGUSR1 ends the sandboxes too.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tests.modal_server.server import ModalServer
from tests.modal_server.trouble import Starts


def main() -> None:
    options = argparse.ArgumentParser(prog="modal_server", description=__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--state", type=Path, required=True)
    options.add_argument("--mode", choices=["process", "docker"], default="process")
    options.add_argument("--image", action="append", default=[], metavar="REFERENCE=TAG", help="a tag of the engine")
    options.add_argument("--trouble", action="append", default=[], metavar="JSON", help="a rule; see trouble.add_text")
    options.add_argument("--per-second", type=int, help="creations a second; more are refused")
    options.add_argument("--p50", type=float, help="median seconds of a start")
    options.add_argument("--p99", type=float, default=8.0)
    options.add_argument("--failures", type=float, default=0.0, help="share of starts that fail")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    starts = Starts(chosen.p50, chosen.p99, chosen.failures, chosen.per_second, seed=chosen.seed)
    images = dict(pair.rsplit("=", 1) for pair in chosen.image)
    server = ModalServer(chosen.mode, port=chosen.port, state=chosen.state, starts=starts, images=images, kept_calls=0)
    for rule in chosen.trouble:
        server.trouble.add_text(rule)
    wanted = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    server.start()
    print(server.url, flush=True)
    if signal.sigwait(wanted) == signal.SIGUSR1:
        server.end()
    else:
        server.stop()


if __name__ == "__main__":
    main()
