"""Steers the jobs of a site's Slurm that have mates. Nothing is compiled into Slurm.

Slurm runs ``prolog_gate.py`` as PrologSlurmctld when a job has its nodes, and waits for
its end. The gate of a job with mates asks the controller: *go* lets the job start, *yield*
puts it back into the queue. ``tracker`` decides what happens to a job by the reports of its
gate and of squeue; ``commands`` has Slurm's commands.
"""
