"""What can go wrong, as one line for the user."""


class VmError(Exception):
    """The machine cannot be built or started; the text says what to do."""
