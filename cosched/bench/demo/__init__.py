"""``cosched demo``: shows on one machine what coscheduling gains."""
