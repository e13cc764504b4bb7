"""Runs functions and commands as jobs of a domain, as ``concurrent.futures`` does."""
