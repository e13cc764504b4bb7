"""Defines what users' commands and the domain both rely on, whatever they ask for."""

from __future__ import annotations

#: The longest request of a user, in bytes: arguments and environment of a job.
LONGEST_REQUEST = 16 << 20
#: The variable of each task that has the job's number.
JOB_VARIABLE = "COSCHED_DOMAIN_JOB"
#: How long a controller waits for space on its disk before it ends. Its jobs run on also
#: then. Clients wait longer.
FULL_DISK_S = 600.0
