#include "wait/wait.h"

#include <time.h>

#include "cosched/clock.h"

static void (*after_wait)(uint64_t now_ns);

bool cosched_wait_pause(struct cosched_wait *wait) {
    return cosched_waiting_turn(&cosched_state.link, &cosched_state.wait, wait) != 0;
}

static void call_hook(uint64_t now_ns) {
    void (*hook)(uint64_t) = __atomic_load_n(&after_wait, __ATOMIC_ACQUIRE);
    if (hook != NULL)
        hook(now_ns);
}

void cosched_wait_end(struct cosched_wait *wait) {
    uint64_t now = cosched_waiting_end(&cosched_state.link, wait);
    if (now != 0)
        call_hook(now);
}

void cosched_wait_set_hook(void (*hook)(uint64_t now_ns)) {
    __atomic_store_n(&after_wait, hook, __ATOMIC_RELEASE);
}

void cosched_wait_call_hook(void) {
    if (__atomic_load_n(&after_wait, __ATOMIC_RELAXED) != NULL)
        call_hook(cosched_clock_ns(CLOCK_MONOTONIC));
}
