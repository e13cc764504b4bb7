#define _GNU_SOURCE
#include "kick.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define STACK_BYTES (64u * 1024u)

struct cosched_kicker {
    pthread_t thread;
    uint64_t period_ns;
    uint32_t rounds;
    uint32_t stopping;
    uint32_t kicks; /* counts up; the thread sleeps on it */
};

static uint32_t kicks_of(struct cosched_kicker *kicker) {
    return __atomic_load_n(&kicker->kicks, __ATOMIC_ACQUIRE);
}

/* A round only wakes up. */
static void rounds_of_one_kick(struct cosched_kicker *kicker, uint32_t seen) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    for (uint32_t round = 1; round < kicker->rounds; round++) {
        uint64_t ns = (uint64_t)at.tv_nsec + kicker->period_ns;
        at.tv_sec += (time_t)(ns / NS_PER_S);
        at.tv_nsec = (long)(ns % NS_PER_S);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        if (kicks_of(kicker) != seen)
            return;
    }
}

static void *run(void *argument) {
    struct cosched_kicker *kicker = argument;
    uint32_t seen = 0;
    while (!__atomic_load_n(&kicker->stopping, __ATOMIC_ACQUIRE)) {
        uint32_t kicks = kicks_of(kicker);
        if (kicks == seen) {
            (void)syscall(SYS_futex, &kicker->kicks, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
            continue;
        }
        seen = kicks;
        rounds_of_one_kick(kicker, seen);
    }
    return NULL;
}

static int create(struct cosched_kicker *kicker, pthread_attr_t *attributes, uint32_t cpu) {
    struct sched_param priority = {.sched_priority = 1};
    cpu_set_t cpus;
    if (cpu >= CPU_SETSIZE)
        return -EINVAL;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    int error = pthread_attr_setstacksize(attributes, STACK_BYTES);
    if (error == 0)
        error = pthread_attr_setaffinity_np(attributes, sizeof cpus, &cpus);
    if (error == 0)
        error = pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
    if (error == 0)
        error = pthread_attr_setschedpolicy(attributes, SCHED_FIFO);
    if (error == 0)
        error = pthread_attr_setschedparam(attributes, &priority);
    if (error == 0)
        error = pthread_create(&kicker->thread, attributes, run, kicker);
    return -error;
}

int cosched_kicker_start(struct cosched_kicker **kicker, uint32_t cpu, uint32_t rounds,
                         uint64_t period_ns) {
    struct cosched_kicker *made = calloc(1, sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->rounds = rounds;
    made->period_ns = period_ns;

    /* The main thread handles signals; the new thread inherits a full mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    int result = -pthread_attr_init(&attributes);
    if (result == 0) {
        result = create(made, &attributes, cpu);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (result != 0)
        free(made);
    else
        *kicker = made;
    return result;
}

void cosched_kicker_kick(struct cosched_kicker *kicker) {
    __atomic_fetch_add(&kicker->kicks, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &kicker->kicks, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void cosched_kicker_stop(struct cosched_kicker *kicker) {
    __atomic_store_n(&kicker->stopping, 1, __ATOMIC_RELEASE);
    cosched_kicker_kick(kicker);
    pthread_join(kicker->thread, NULL);
    free(kicker);
}
