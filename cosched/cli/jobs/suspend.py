"""``cosched suspend``."""

from cosched.cli.jobs.steer import steering_command

command = steering_command(
    "suspend",
    """Stop a job on all its nodes, until 'cosched resume'.

    All of its processes stand still, keep their memory, and no other job waits for
    them. For the job's owner and root. If the daemons die, the job runs on.

    \b
    Examples:
      cosched suspend solver-x7k2p
      cosched resume solver-x7k2p
    """,
)
