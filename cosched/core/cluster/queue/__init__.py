"""The batch queue of one domain: which job starts when, and on which nodes.

``scheduler.QueueScheduler`` is the machine; order and backfill are policies it is made of.
"""
