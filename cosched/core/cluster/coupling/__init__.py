"""Jobs of several domains that start together (Tang et al., IPDPS 2011): hold and yield.

``scheduler.CoupledScheduler`` is a domain's machine; ``run_job`` is the paper's
Algorithm 1; ``protocol`` is what domains say to each other.
"""
