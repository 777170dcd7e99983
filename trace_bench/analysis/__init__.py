"""Results as frames and groups, with estimates, intervals, tests and comparisons."""
