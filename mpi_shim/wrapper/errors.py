"""Makes the wrapper's own errors: one line each, with the remedy."""

from __future__ import annotations


class UnprefixedMessageError(RuntimeError):
    """A message arrived without a status byte, so its data may be wrong.

    Its sender does not use the wrapper: it has no COSCHED_JOB or another COSCHED_STATUS, or
    it sent the message through ``mpi4py.MPI`` or a C library.
    """

    def __init__(self, source: int, tag: int) -> None:
        super().__init__(
            f"message from rank {source} with tag {tag} has no status byte: let every "
            "rank import MPI from mpi_shim, or set COSCHED_STATUS=none for all of them"
        )


def not_covered(what: str, instead: str) -> NotImplementedError:
    """Returns the error for a call that the wrapper cannot serve."""
    return NotImplementedError(
        f"mpi_shim: {what} is not covered while COSCHED_STATUS=prefix; {instead}"
    )
