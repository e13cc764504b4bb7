"""Kicks CPUs and holds processes (``kick``, ``held_process``), by parts in C."""
