"""What runs inside a sandbox: the supervisor, the phases, and the processes of candidates."""
