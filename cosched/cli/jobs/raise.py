"""``cosched raise``."""

from cosched.cli.jobs.steer import steering_command

command = steering_command(
    "raise",
    """Have a job run alone on its CPUs, at once, until 'cosched resume'.

    Other jobs keep their 1% there. Several raised jobs take turns. For the job's
    owner, where the operator allows it ('cosched up --allow-raise'; private daemons
    do), and root.

    \b
    Example:
      cosched raise solver-x7k2p
    """,
)
