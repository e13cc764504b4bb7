"""Starts the members of a domain, and ends them."""
