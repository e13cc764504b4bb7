"""The run directory: its paths, its users and the locks of its daemons."""
