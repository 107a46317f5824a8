"""Who gets in, and when: callers and their rights, and bounds on the number of requests."""
