"""Reads what users and batch systems give: words in front of a launcher, hosts, the job."""
