"""The task: its environment, its link to the scheduler daemon, how it waits."""
