"""The decision at each event: which jobs keep their CPUs, and which get them."""
