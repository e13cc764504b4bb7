"""Makes jobs for users: a job's part in coscheduling, and jobs of a domain.

Programs of users begin here, too: ``from cosched import Client, Job``.
"""
