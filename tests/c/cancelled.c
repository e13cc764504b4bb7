/* A thread that is cancelled goes on while it passes the time of a wait: the MPI library may hold
 * its locks then. Prints "passed" if the thread comes to its end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "cosched/spin_or_sleep.h"

static void *pass_time(void *link) {
    const struct cosched_wait_policy policy = {.kind = COSCHED_WAIT_BLOCK};
    struct cosched_arrivals arrivals = {0};
    struct cosched_wait wait = {0};
    pthread_cancel(pthread_self()); /* takes effect at the next cancellation point */
    cosched_pass_time(link, &policy, &wait);
    cosched_arrivals_sleep(&arrivals, 1000);
    return link;
}

int main(void) {
    struct cosched_link link;
    pthread_t thread;
    void *result;
    cosched_link_open(&link);
    if (pthread_create(&thread, NULL, pass_time, &link) != 0 ||
        pthread_join(thread, &result) != 0)
        return 1;
    puts(result == &link ? "passed" : "cancelled");
    return 0;
}
