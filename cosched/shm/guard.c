#define _GNU_SOURCE
#include "cosched/guard.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* Static, because a signal handler gets no argument of ours. */
static struct guarded {
    uintptr_t begin; /* 0: a free entry */
    uint64_t bytes;
    uint32_t torn;
} table[COSCHED_GUARDED_MAX];

static struct guarded *find(uintptr_t begin) {
    for (uint32_t i = 0; i < COSCHED_GUARDED_MAX; i++)
        if (table[i].begin == begin)
            return &table[i];
    return NULL;
}

static void on_sigbus(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    for (uint32_t i = 0; i < COSCHED_GUARDED_MAX; i++) {
        struct guarded *g = &table[i];
        if (g->begin == 0 || address < g->begin || address - g->begin >= g->bytes)
            continue;
        void *zeros = mmap((void *)g->begin, g->bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED)
            break;
        __atomic_store_n(&g->torn, 1, __ATOMIC_RELEASE);
        errno = saved;
        return;
    }
    signal(number, SIG_DFL); /* the access is repeated and ends the process */
    errno = saved;
}

int cosched_guard_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : -errno;
}

int cosched_guard_add(void *begin, uint64_t bytes) {
    struct guarded *free_entry = find(0);
    if (free_entry == NULL)
        return -ENOSPC;
    free_entry->bytes = bytes;
    free_entry->torn = 0;
    __atomic_store_n(&free_entry->begin, (uintptr_t)begin, __ATOMIC_RELEASE);
    return 0;
}

void cosched_guard_remove(void *begin) {
    struct guarded *entry = find((uintptr_t)begin);
    if (entry != NULL)
        __atomic_store_n(&entry->begin, 0, __ATOMIC_RELEASE);
}

int cosched_guard_torn(void *begin) {
    struct guarded *entry = find((uintptr_t)begin);
    return entry != NULL && __atomic_load_n(&entry->torn, __ATOMIC_ACQUIRE) != 0;
}
