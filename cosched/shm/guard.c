#define _GNU_SOURCE
#include "cosched/guard.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

/* Static, because a signal handler gets no argument of ours. */
static struct guarded {
    uintptr_t begin; /* 0: a free entry */
    uint64_t bytes;
    void (*on_torn)(void *argument);
    void *argument;
    uint32_t torn;
} table[COSCHED_GUARDED_MAX];

/* What SIGBUS did before the guard. */
static struct sigaction before;
static int is_installed;

static struct guarded *find(uintptr_t begin) {
    for (uint32_t i = 0; i < COSCHED_GUARDED_MAX; i++)
        if (table[i].begin == begin)
            return &table[i];
    return NULL;
}

/* Returns whether the address was guarded and has memory now. */
static int tear(uintptr_t address) {
    for (uint32_t i = 0; i < COSCHED_GUARDED_MAX; i++) {
        struct guarded *g = &table[i];
        if (g->begin == 0 || address < g->begin || address - g->begin >= g->bytes)
            continue;
        if (mmap((void *)g->begin, g->bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return 0;
        __atomic_store_n(&g->torn, 1, __ATOMIC_RELEASE);
        if (g->on_torn != NULL)
            g->on_torn(g->argument);
        return 1;
    }
    return 0;
}

/* A signal that the kernel sent is raised again by the access itself, one that a process sent is
 * not. */
static void do_default(int number, int was_sent) {
    signal(number, SIG_DFL);
    if (was_sent)
        raise(number);
}

/* Does what the signal did before the guard. Its mask is that of this handler already. */
static void pass_on(int number, siginfo_t *info, void *context) {
    const struct sigaction next = before;
    const int was_sent = info->si_code <= 0;
    if ((next.sa_flags & SA_SIGINFO) == 0 && next.sa_handler == SIG_IGN && was_sent)
        return;
    if ((next.sa_flags & SA_SIGINFO) == 0 &&
        (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN)) {
        do_default(number, was_sent);
        return;
    }
    if ((next.sa_flags & SA_RESETHAND) != 0)
        before = (struct sigaction){.sa_handler = SIG_DFL};
    if ((next.sa_flags & SA_SIGINFO) != 0)
        next.sa_sigaction(number, info, context);
    else
        next.sa_handler(number);
}

static void on_sigbus(int number, siginfo_t *info, void *context) {
    const int error = errno;
    const int is_ours = info->si_code > 0 && tear((uintptr_t)info->si_addr);
    errno = error;
    if (!is_ours)
        pass_on(number, info, context);
}

int cosched_guard_install(void) {
    struct sigaction action;
    if (is_installed)
        return 0;
    if (sigaction(SIGBUS, NULL, &before) != 0)
        return -errno;
    action = before;
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | (before.sa_flags & (SA_ONSTACK | SA_NODEFER | SA_RESTART));
    /* Runtimes such as Go's need each handler on the alternate stack, if a thread has one. */
    if ((before.sa_flags & SA_SIGINFO) == 0 &&
        (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN))
        action.sa_flags |= SA_ONSTACK;
    if (sigaction(SIGBUS, &action, NULL) != 0)
        return -errno;
    is_installed = 1;
    return 0;
}

int cosched_guard_add(void *begin, uint64_t bytes, void (*on_torn)(void *argument),
                      void *argument) {
    struct guarded *free_entry = find(0);
    if (free_entry == NULL)
        return -ENOSPC;
    free_entry->bytes = bytes;
    free_entry->on_torn = on_torn;
    free_entry->argument = argument;
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
