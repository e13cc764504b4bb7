"""Writes files as a whole, and finds the users who can change a file."""
