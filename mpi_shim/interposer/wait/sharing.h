/*
 * sharing.h - whether this task shares its CPU with somebody now.
 *
 * The scheduler daemon knows of other jobs. Without it, or once it is gone, the kernel
 * tells: who spins without a pause and is taken off the CPU again and again (involuntary
 * context switches), shares it. Who sleeps is not taken off, so a verdict "shared" is kept
 * for a while and then found anew: a task that blocks in its waits spins for some
 * milliseconds a second to find out.
 */
#ifndef COSCHED_SHARING_H
#define COSCHED_SHARING_H

#include <stdbool.h>
#include <stdint.h>

/* Asked in each turn of a wait, with the number of the turn. */
bool cosched_sharing(uint32_t turn);

#endif
