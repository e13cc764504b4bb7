"""``cosched resume``."""

from cosched.cli.jobs.steer import steering_command

command = steering_command(
    "resume",
    """Make a job an ordinary one again after suspend, raise or release.

    For the job's owner and root.

    \b
    Example:
      cosched resume solver-x7k2p
    """,
)
