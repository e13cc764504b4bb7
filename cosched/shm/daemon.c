#define _GNU_SOURCE
#include "cosched/daemon.h"

#include <errno.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/futex.h"
#include "cosched/ring.h"

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
    __atomic_store_n(&heartbeat->beat_ns, cosched_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
}

void cosched_status_publish(struct cosched_status *status, uint64_t epoch, int scheduled) {
    __atomic_store_n(&status->word, (epoch << 1) | (scheduled ? 1u : 0u), __ATOMIC_RELEASE);
    cosched_futex_wake(&status->word);
}

void cosched_status_contend(struct cosched_status *status, int contended) {
    __atomic_store_n(&status->contended, contended ? 1u : 0u, __ATOMIC_RELAXED);
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
    /* The generation is odd while the orders change, so that no reader uses half of them. The
     * fence keeps the stores behind it: on ARM they could overtake even an atomic addition. */
    __atomic_fetch_add(&orders->generation, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&orders->slice_ns, slice_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->align, align, __ATOMIC_RELAXED);
    __atomic_store_n(&orders->idle, idle, __ATOMIC_RELAXED);
    __atomic_fetch_add(&orders->generation, 1, __ATOMIC_RELEASE);
}

void cosched_orders_read(const struct cosched_timer_orders *orders,
                         struct cosched_timer_orders *copy) {
    /* A limit: a writer that died half-way leaves the generation odd for ever. */
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint32_t before = __atomic_load_n(&orders->generation, __ATOMIC_ACQUIRE);
        copy->slice_ns = __atomic_load_n(&orders->slice_ns, __ATOMIC_RELAXED);
        copy->deadline_ns = __atomic_load_n(&orders->deadline_ns, __ATOMIC_RELAXED);
        copy->align = __atomic_load_n(&orders->align, __ATOMIC_RELAXED);
        copy->idle = __atomic_load_n(&orders->idle, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        copy->generation = __atomic_load_n(&orders->generation, __ATOMIC_RELAXED);
        if (before == copy->generation && (before & 1) == 0)
            return;
    }
}

int cosched_timer_open(int realtime) {
    int fd = timerfd_create(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return fd >= 0 ? fd : -errno;
}

int cosched_timer_set(int fd, uint64_t at_ns) {
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                                           .tv_nsec = (long)(at_ns % 1000000000u)}};
    int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    return timerfd_settime(fd, flags, &when, NULL) == 0 ? 0 : -errno;
}

int cosched_timer_expired(int fd) {
    uint64_t times;
    if (read(fd, &times, sizeof times) == (ssize_t)sizeof times)
        return 1;
    return errno == EAGAIN ? 0 : -errno;
}
