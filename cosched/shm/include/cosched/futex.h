/*
 * cosched/futex.h - sleeps on the low 32 bits of a word of 64 bits, also between processes.
 */
#ifndef COSCHED_FUTEX_H
#define COSCHED_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint32_t *cosched_futex_of(const uint64_t *word) {
    uint32_t *low = (uint32_t *)(uintptr_t)word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low++;
#endif
    return low;
}

/* Wakes all that sleep on the word. */
static inline void cosched_futex_wake(const uint64_t *word) {
    (void)syscall(SYS_futex, cosched_futex_of(word), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until the word is woken, at most `limit`. Returns at once if its low bits are not those
 * of `seen`. */
static inline void cosched_futex_wait(const uint64_t *word, uint64_t seen,
                                      const struct timespec *limit) {
    (void)syscall(SYS_futex, cosched_futex_of(word), FUTEX_WAIT, (uint32_t)seen, limit, NULL, 0);
}

#endif
