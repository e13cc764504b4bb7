"""Defines the error for a program that uses a malleable job wrongly."""

from cosched.core.errors import CoschedError


class Misuse(CoschedError):
    """The program used the job wrongly; the line says what to do."""
