"""Reads how a domain is coupled with others, and compares changed settings."""
