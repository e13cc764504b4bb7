"""Has the parts of ``linux`` that are in C: kicks of CPUs, and held processes."""
