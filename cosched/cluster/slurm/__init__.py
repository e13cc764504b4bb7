"""Starts a domain inside a Slurm allocation: srun starts the agents as a job step."""
