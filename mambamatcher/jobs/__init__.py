"""One way to run a job over many inputs: source, shards, journal and engines."""
