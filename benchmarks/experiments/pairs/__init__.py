"""Runs pairs of jobs in coupled clusters, live and simulated."""
