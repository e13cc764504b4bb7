"""The user's data: mpi4py's message arguments taken apart, copied and packed."""
