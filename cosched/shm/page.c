#define _GNU_SOURCE
#include "cosched/page.h"

#include <errno.h>
#include <string.h>

#include "cosched/clock.h"
#include "cosched/futex.h"

enum { PHASE_BITS = 2, PHASE_MASK = 3 };

/* An agent on the same machine answers within some microseconds if it runs; then no sleep is
 * worth its price. */
enum { SPINS = 200 };

static uint64_t load_word(const struct cosched_page *page) {
    return __atomic_load_n(&page->word.word, __ATOMIC_ACQUIRE);
}

static int turn_of(uint64_t word, uint64_t step) {
    if (word >> PHASE_BITS != step || (word & PHASE_MASK) == COSCHED_PAGE_NONE)
        return COSCHED_PAGE_GO_ON;
    return (word & PHASE_MASK) == COSCHED_PAGE_COMMITTED ? COSCHED_PAGE_CHANGE : COSCHED_PAGE_WAIT;
}

/* --- the agent ------------------------------------------------------------------------------ */

void cosched_page_publish(struct cosched_page *page, uint32_t place, const char *host) {
    struct cosched_page_header *header = &page->header;
    header->magic = COSCHED_PAGE_MAGIC;
    header->version = COSCHED_PAGE_VERSION;
    header->bytes = sizeof *page;
    header->place = place;
    memcpy(header->host, host, strnlen(host, COSCHED_PAGE_HOST_BYTES - 1));
    __atomic_store_n(&header->ready, 1, __ATOMIC_RELEASE);
}

int cosched_page_give_order(struct cosched_page *page, uint64_t generation, const uint8_t *data,
                            uint32_t bytes) {
    if (bytes > COSCHED_PAGE_ORDER_BYTES)
        return -EMSGSIZE;
    memcpy(page->order.data, data, bytes);
    page->order.bytes = bytes;
    page->order.generation = generation;
    return 0;
}

void cosched_page_store_word(struct cosched_page *page, uint64_t boundary, uint32_t phase) {
    __atomic_store_n(&page->word.word, (boundary << PHASE_BITS) | phase, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    cosched_futex_wake(&page->word.word);
}

/* A rank that came to the boundary and has not acknowledged may have loaded the word before. */
static int may_have_passed(uint64_t step, uint64_t acknowledged, uint64_t boundary) {
    return step > boundary || (step == boundary && acknowledged != boundary + 1);
}

void cosched_page_scan(const struct cosched_page *page, uint64_t boundary,
                       struct cosched_page_look *look) {
    memset(look, 0, sizeof *look);
    for (uint32_t i = 0; i < COSCHED_PAGE_SLOTS; i++) {
        const struct cosched_page_slot *slot = &page->slots[i];
        const uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        const uint64_t acknowledged = __atomic_load_n(&slot->acknowledged, __ATOMIC_ACQUIRE);
        const uint64_t step = __atomic_load_n(&slot->step, __ATOMIC_ACQUIRE);
        look->joining += state == COSCHED_PAGE_JOINING;
        look->leaving += state == COSCHED_PAGE_LEAVING;
        look->live += state == COSCHED_PAGE_LIVE;
        look->ended += state == COSCHED_PAGE_ENDED && step < boundary;
        if (state != COSCHED_PAGE_LIVE && state != COSCHED_PAGE_ENDED)
            continue;
        if (step > look->largest)
            look->largest = step;
        if (may_have_passed(step, acknowledged, boundary))
            look->missed = 1;
    }
}

void cosched_page_forget(struct cosched_page *page, int32_t pid) {
    for (uint32_t i = 0; i < COSCHED_PAGE_SLOTS; i++)
        if (__atomic_load_n(&page->slots[i].pid, __ATOMIC_ACQUIRE) == pid)
            cosched_page_leave(page, i);
}

uint64_t cosched_page_last_result(const struct cosched_page *page) {
    return __atomic_load_n(&page->result.generation, __ATOMIC_ACQUIRE);
}

/* --- a rank --------------------------------------------------------------------------------- */

int cosched_page_check(const struct cosched_page *page, uint64_t bytes) {
    const struct cosched_page_header *header = &page->header;
    if (bytes < sizeof *header)
        return -EPROTO;
    if (__atomic_load_n(&header->ready, __ATOMIC_ACQUIRE) != 1)
        return -EAGAIN;
    if (header->magic != COSCHED_PAGE_MAGIC)
        return -EPROTO;
    if (header->version != COSCHED_PAGE_VERSION)
        return -EPROTONOSUPPORT;
    return header->bytes == bytes && bytes == sizeof *page ? 0 : -EPROTO;
}

int cosched_page_join(struct cosched_page *page, int32_t pid) {
    for (uint32_t i = 0; i < COSCHED_PAGE_SLOTS; i++) {
        struct cosched_page_slot *slot = &page->slots[i];
        int32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&slot->pid, &nobody, pid, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        cosched_page_set_state(page, i, COSCHED_PAGE_JOINING);
        return (int)i;
    }
    return -ENOSPC;
}

void cosched_page_enter(struct cosched_page *page, uint32_t index, uint64_t step, int32_t rank) {
    struct cosched_page_slot *slot = &page->slots[index];
    slot->rank = rank;
    slot->steps = slot->exec_ns = slot->comm_ns = slot->since_ns = 0;
    __atomic_store_n(&slot->step, step, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->state, COSCHED_PAGE_LIVE, __ATOMIC_RELEASE);
}

/* Adds the iteration that ends now to the times of the rank. */
static void take_time(struct cosched_page_slot *slot, const uint64_t *counter) {
    const uint64_t now_ns = cosched_clock_ns(CLOCK_MONOTONIC);
    const uint64_t waited_ns = counter != NULL ? __atomic_load_n(counter, __ATOMIC_RELAXED) : 0;
    if (slot->since_ns != 0) {
        slot->exec_ns += now_ns - slot->since_ns;
        slot->comm_ns += waited_ns - slot->waited_ns;
        slot->steps++;
    }
    slot->since_ns = now_ns;
    slot->waited_ns = waited_ns;
}

int cosched_page_boundary(struct cosched_page *page, uint32_t index, uint64_t step,
                          const uint64_t *waited_ns) {
    struct cosched_page_slot *slot = &page->slots[index];
    take_time(slot, waited_ns);
    __atomic_store_n(&slot->step, step, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return turn_of(load_word(page), step);
}

int cosched_page_wait(struct cosched_page *page, uint32_t index, uint64_t step,
                      uint64_t timeout_ns) {
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    uint64_t word = load_word(page);
    __atomic_store_n(&page->slots[index].acknowledged, step + 1, __ATOMIC_RELEASE);
    for (int i = 0; i < SPINS && turn_of(word, step) == COSCHED_PAGE_WAIT; i++)
        word = load_word(page);
    if (turn_of(word, step) == COSCHED_PAGE_WAIT) {
        cosched_futex_wait(&page->word.word, word, &timeout);
        word = load_word(page);
    }
    return turn_of(word, step);
}

void cosched_page_set_state(struct cosched_page *page, uint32_t slot, uint32_t state) {
    __atomic_store_n(&page->slots[slot].state, state, __ATOMIC_RELEASE);
}

void cosched_page_leave(struct cosched_page *page, uint32_t index) {
    struct cosched_page_slot *slot = &page->slots[index];
    slot->step = slot->acknowledged = slot->since_ns = 0;
    cosched_page_set_state(page, index, COSCHED_PAGE_FREE);
    __atomic_store_n(&slot->pid, 0, __ATOMIC_RELEASE);
}

void cosched_page_ask(struct cosched_page *page, uint32_t nodes) {
    page->wants.wanted = nodes;
    __atomic_fetch_add(&page->wants.asked, 1, __ATOMIC_RELEASE);
}

void cosched_page_predict(struct cosched_page *page,
                          const struct cosched_page_prediction *prediction) {
    struct cosched_page_prediction *mine = &page->prediction;
    __atomic_store_n(&mine->count, 0, __ATOMIC_RELEASE);
    memcpy(mine->nodes, prediction->nodes, sizeof mine->nodes);
    memcpy(mine->exec_ns, prediction->exec_ns, sizeof mine->exec_ns);
    __atomic_store_n(&mine->count, prediction->count, __ATOMIC_RELEASE);
}

void cosched_page_report(struct cosched_page *page, uint64_t generation) {
    __atomic_store_n(&page->result.generation, generation, __ATOMIC_RELEASE);
}
