"""The commands for jobs of a domain."""
