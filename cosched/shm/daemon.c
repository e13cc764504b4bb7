#define _GNU_SOURCE
#include "cosched/daemon.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cosched/ring.h"

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void futex_wake_all(uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void cosched_header_publish(struct cosched_header *header, uint32_t kind, uint64_t bytes) {
    header->magic = COSCHED_REGION_MAGIC;
    header->abi = COSCHED_ABI;
    header->kind = kind;
    header->bytes = bytes;
    __atomic_store_n(&header->ready, 1, __ATOMIC_RELEASE);
}

int cosched_header_check(const struct cosched_header *header, uint32_t kind, uint64_t bytes) {
    if (__atomic_load_n(&header->ready, __ATOMIC_ACQUIRE) != 1)
        return -EAGAIN;
    if (header->magic != COSCHED_REGION_MAGIC || header->kind != kind)
        return -EPROTO;
    if (header->abi != COSCHED_ABI)
        return -EPROTONOSUPPORT;
    return header->bytes == bytes ? 0 : -EPROTO;
}

void cosched_beat(struct cosched_heartbeat *heartbeat) {
    __atomic_store_n(&heartbeat->beat_ns, monotonic_ns(), __ATOMIC_RELEASE);
}

uint64_t cosched_beat_age_ns(const struct cosched_heartbeat *heartbeat) {
    uint64_t beat = __atomic_load_n(&heartbeat->beat_ns, __ATOMIC_ACQUIRE);
    uint64_t now = monotonic_ns();
    return now > beat ? now - beat : 0;
}

void cosched_status_publish(struct cosched_status *status, uint64_t epoch, int scheduled) {
    uint32_t *futex = (uint32_t *)&status->word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    futex++;
#endif
    __atomic_store_n(&status->word, (epoch << 1) | (scheduled ? 1u : 0u), __ATOMIC_RELEASE);
    futex_wake_all(futex);
}

uint64_t cosched_status_read(const struct cosched_status *status) {
    return __atomic_load_n(&status->word, __ATOMIC_ACQUIRE);
}

int cosched_request_take(struct cosched_ring *ring, uint32_t *request, uint32_t *slot,
                         uint64_t *epoch) {
    uint64_t payload;
    if (!cosched_ring_take(ring, &payload))
        return 0;
    *request = (uint32_t)(payload & 0xff);
    *slot = (uint32_t)((payload >> 8) & 0xffff);
    *epoch = (payload >> 24) & UINT64_C(0xffffffff);
    return 1;
}

int cosched_request_post(struct cosched_ring *ring, uint32_t request, uint32_t slot,
                         uint64_t epoch) {
    return cosched_ring_post(ring, cosched_request_pack(request, slot, epoch));
}

void cosched_orders_give(struct cosched_timer_orders *orders, uint64_t slice_ns,
                         uint64_t deadline_ns, uint32_t align, uint32_t idle) {
    __atomic_store_n(&orders->slice_ns, slice_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->align, align, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->idle, idle, __ATOMIC_RELAXED);
    __atomic_fetch_add(&orders->generation, 1, __ATOMIC_RELEASE);
    futex_wake_all(&orders->generation);
}

uint32_t cosched_orders_generation(const struct cosched_timer_orders *orders) {
    return __atomic_load_n(&orders->generation, __ATOMIC_ACQUIRE);
}

int cosched_orders_wait(struct cosched_timer_orders *orders, uint32_t generation,
                        uint64_t until_ns, int realtime) {
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
    int op = FUTEX_WAIT_BITSET | (realtime ? FUTEX_CLOCK_REALTIME : 0);
    long result = syscall(SYS_futex, &orders->generation, op, generation,
                          until_ns != 0 ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    return result != 0 && errno == ETIMEDOUT ? 0 : 1;
}
