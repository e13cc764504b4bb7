/*
 * kick.h - makes the kernel choose a task on a CPU again, at once and for some time.
 * linux/native/kick.py gives the reason. A kicker is a real-time thread that sleeps on one CPU.
 */
#ifndef COSCHED_LINUX_NATIVE_KICK_H
#define COSCHED_LINUX_NATIVE_KICK_H

#include <stdint.h>

/* cdef: begin */
struct cosched_kicker;

/* Starts the kicker of a CPU. Each kick wakes it rounds times, period_ns apart.
 * Returns 0 or -errno: -EPERM without the right to SCHED_FIFO, -EINVAL for a CPU that
 * this process may not use. */
int cosched_kicker_start(struct cosched_kicker **kicker, uint32_t cpu, uint32_t rounds,
                         uint64_t period_ns);

/* Starts a kick, or restarts a running one. Never waits. */
void cosched_kicker_kick(struct cosched_kicker *kicker);

/* Ends the thread, within a period, and frees the kicker. */
void cosched_kicker_stop(struct cosched_kicker *kicker);
/* cdef: end */

#endif
