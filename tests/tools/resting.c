/*
 * resting.c - is preloaded into the ranks of a job whose messages are not what a test is about. A rank
 * that waits for others gives way again and again; with this library it rests each time. Otherwise it
 * would take the CPU from daemons, and from ranks that start.
 */
#include <time.h>

enum { REST_NS = 50000 };

int sched_yield(void) {
    const struct timespec rest = {0, REST_NS};
    return nanosleep(&rest, NULL);
}
