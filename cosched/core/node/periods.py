"""Names the times in which the shares of jobs take effect, by the way that sets them."""

from __future__ import annotations

from cosched.core.units import NS_PER_MS

#: After this time a switch has taken effect on both nodes, and messages are trapped. See
#: cosched.linux.native.kick; an unscheduled task sleeps a millisecond between two tests.
SETTLED_NS = 20 * NS_PER_MS
#: The period over which the kernel counts a quota (cosched.linux.cgroups).
QUOTA_PERIOD_NS = 100 * NS_PER_MS
#: How often the duty cycle lets an unscheduled job run (cosched.linux.dutycycle).
DUTY_CYCLE_NS = 200 * NS_PER_MS
