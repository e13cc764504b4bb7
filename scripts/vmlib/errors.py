"""Defines the one-line error of the virtual machine."""


class VmError(Exception):
    """The machine cannot be built or started; the text says what to do."""
