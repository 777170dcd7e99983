"""Names, schemas, writing and collecting of files. What a sandbox hands back is untrusted until it is validated."""
