/*
 * sharing - whether a task takes its CPU for shared: alone, while a daemon says that another
 * job waits, and when that daemon is gone. Turn 1 of a wait: the kernel is not asked yet.
 */
#include <stdio.h>

#include "cosched/clock.h"
#include "wait/sharing.h"
#include "base/state.h"

struct cosched_shim cosched_shim;
static struct cosched_job_region region;

int main(void) {
    region.status.word = 1;
    region.status.contended = 1;
    printf("alone %d\n", cosched_sharing(1));
    cosched_shim.link.region = &region;
    region.heartbeat.beat_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    printf("attended %d\n", cosched_sharing(1));
    region.heartbeat.beat_ns = 0;
    printf("left %d\n", cosched_sharing(1));
    return 0;
}
