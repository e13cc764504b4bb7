"""Starts of jobs: sends them to their nodes and ends them."""
