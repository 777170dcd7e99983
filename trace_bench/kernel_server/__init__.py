"""The evaluation service of ``trace-bench kernel-server``: kernels come over HTTP, and each is scored in a sandbox.

`submission` reads what a client sends, `jobs` queues it, `evaluate` runs one as a job of the suite ``kernelbench``,
`app` has the endpoints, and `serve` the address, the token and the end.
"""
