"""Search algorithms, optimizers, and adapters to other frameworks."""
