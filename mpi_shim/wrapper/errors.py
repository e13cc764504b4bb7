"""The wrapper's own errors: each a single line that says what to do."""

from __future__ import annotations


class UnprefixedMessageError(RuntimeError):
    """A message arrived without a status byte, so its contents are not to be trusted.

    Its sender does not use the wrapper: it lacks COSCHED_JOB, has another
    COSCHED_STATUS, or sent the message through ``mpi4py.MPI`` or a C library.
    """

    def __init__(self, source: int, tag: int) -> None:
        super().__init__(
            f"message from rank {source} with tag {tag} has no status byte: let every "
            "rank import MPI from mpi_shim, or set COSCHED_STATUS=none for all of them"
        )


def not_covered(what: str, instead: str) -> NotImplementedError:
    """The error for a call that the wrapper could only get wrong."""
    return NotImplementedError(
        f"mpi_shim: {what} is not covered while COSCHED_STATUS=prefix; {instead}"
    )
