"""Figures 7 to 11 of Brelsford et al. (JSSPP 2010): partitioned scheduling."""
