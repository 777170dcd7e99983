"""The commands, one module each. See `trace_bench.cli.app` for how a module declares its command.

A module is imported for the help and the completion of its command too, and so imports what it works with inside of
functions: the packages behind most commands take a quarter of a second.
"""
