"""A run on the host: jobs, their attempts, the conversation with sandboxes, and what is recorded of them."""
