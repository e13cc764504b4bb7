"""Processes that others started or left: signals to them, their end, the state that they
start with."""
