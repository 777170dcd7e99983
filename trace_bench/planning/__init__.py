"""From a config to a plan: what happens to each job of a run before the run starts."""
