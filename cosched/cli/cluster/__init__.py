"""The commands that start, end and inspect a domain."""
