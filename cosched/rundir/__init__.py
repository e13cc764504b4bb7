"""Has what a run directory is: its paths, who may use it, and the locks of its daemons."""
