"""Requests and the work that is left when they complete."""
