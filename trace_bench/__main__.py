"""``python -m trace_bench`` is ``trace-bench``."""

from trace_bench.cli import main

if __name__ == "__main__":
    main()
