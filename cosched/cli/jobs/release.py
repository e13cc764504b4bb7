"""``cosched release``."""

from cosched.cli.jobs.steer import steering_command

command = steering_command(
    "release",
    """Take a job out of coscheduling: it runs on at the kernel's normal shares.

    'cosched resume' takes it back in. For the job's owner and root.

    \b
    Example:
      cosched release solver-x7k2p
    """,
)
