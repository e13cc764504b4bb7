"""Runs a domain whose jobs another scheduler queues, coupled with other domains.

``domain`` connects the decisions (``core.cluster.coupling``) with an engine
(``cluster.engines``) and the other domains. Each decision is stored before it is carried
out, so a controller that was killed continues where it was.
"""
