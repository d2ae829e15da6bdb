"""The pure core: no I/O, no clock, no concurrency, no ambient randomness."""
