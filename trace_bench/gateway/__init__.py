"""The host's LLM service, and the only way out of a sandbox: providers, budgets, cassettes, replay."""
