/*
 * lock.h - locks a few instructions, which nearly every request takes. It costs one atomic
 * exchange. A thread that waits for it soon gives up its CPU.
 */
#ifndef COSCHED_LOCK_H
#define COSCHED_LOCK_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct cosched_lock {
    char held;
};

static inline void cosched_lock_wait(void) {
    static const struct timespec moment = {.tv_sec = 0, .tv_nsec = 20000};
    for (int i = 0; i < 20; i++)
        (void)syscall(SYS_sched_yield); /* not sched_yield(): the shim replaces it */
    nanosleep(&moment, NULL); /* among real-time tasks yielding alone would never end */
}

static inline void cosched_lock_take(struct cosched_lock *lock) {
    while (__builtin_expect(__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE), 0))
        for (int i = 0; __atomic_load_n(&lock->held, __ATOMIC_RELAXED); i++)
            if (i >= 200) {
                cosched_lock_wait();
                i = 0;
            }
}

static inline void cosched_lock_give(struct cosched_lock *lock) {
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
