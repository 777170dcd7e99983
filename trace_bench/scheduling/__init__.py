"""Which job runs where, and when: allocations, the queue, the pace of starts, outages."""
