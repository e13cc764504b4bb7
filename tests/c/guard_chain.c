/* A program that has its own handler of SIGBUS, and a guarded region. The argument chooses the case.
 * It prints one word if it goes on. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cosched/guard.h"

#define BYTES 8192

static sigjmp_buf back;
static void *seen_address;
static int seen_blocked, seen_on_stack, calls, torn_calls;
static char alternate[1 << 16];
static struct sigaction earlier;

static void plain(int number) {
    sigset_t mask;
    char here;
    (void)number;
    calls++;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    seen_blocked = sigismember(&mask, SIGUSR1);
    seen_on_stack = &here >= alternate && &here < alternate + sizeof alternate;
    siglongjmp(back, 1);
}

static void with_info(int number, siginfo_t *info, void *context) {
    (void)context;
    seen_address = info->si_addr;
    plain(number);
}

static void count(int number) {
    (void)number;
    calls++;
}

static void chained(int number, siginfo_t *info, void *context) {
    calls++;
    earlier.sa_sigaction(number, info, context);
}

static void on_torn(void *argument) { *(int *)argument += 1; }

/* Returns memory whose file has been truncated. */
static volatile char *cut_memory(void) {
    int fd = memfd_create("cut", 0);
    char *memory;
    if (fd < 0 || ftruncate(fd, BYTES) != 0)
        exit(2);
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || ftruncate(fd, 0) != 0)
        exit(2);
    return memory;
}

static void handle(void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGBUS, &action, NULL);
}

static void handle_info(void (*handler)(int, siginfo_t *, void *), struct sigaction *old) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, old);
}

static void end(const char *word) {
    puts(word);
    exit(0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    volatile char *guarded = cut_memory(), *other = cut_memory();
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    if (strcmp(mode, "handler") == 0 || strcmp(mode, "guarded") == 0)
        handle(plain, 0);
    else if (strcmp(mode, "stack") == 0) {
        sigaltstack(&stack, NULL);
        handle(plain, SA_ONSTACK);
    } else if (strcmp(mode, "info") == 0)
        handle_info(with_info, NULL);
    else if (strcmp(mode, "ignored") == 0)
        handle(SIG_IGN, 0);
    else if (strcmp(mode, "once") == 0)
        handle(count, SA_RESETHAND);
    if (cosched_guard_install() != 0 || cosched_guard_install() != 0 ||
        cosched_guard_add((void *)guarded, BYTES, on_torn, &torn_calls) != 0)
        return 2;
    if (strcmp(mode, "later") == 0)
        handle_info(chained, &earlier);
    if (strcmp(mode, "later") == 0 || strcmp(mode, "guarded") == 0 || strcmp(mode, "plain") == 0) {
        if (guarded[0] != 0 || guarded[BYTES - 1] != 0 || torn_calls != 1 ||
            !cosched_guard_torn((void *)guarded) || calls != (strcmp(mode, "later") == 0))
            return 3;
        end("torn");
    }
    if (strcmp(mode, "sent") == 0 || strcmp(mode, "ignored") == 0)
        raise(SIGBUS);
    if (strcmp(mode, "ignored") == 0)
        end("ignored");
    if (strcmp(mode, "once") == 0) {
        raise(SIGBUS);
        printf("%d\n", calls);
        fflush(stdout);
        raise(SIGBUS);
        return 3;
    }
    if (sigsetjmp(back, 1) == 0)
        (void)other[1];
    if (calls != 1 || torn_calls != 0 || cosched_guard_torn((void *)guarded))
        return 3;
    if (strcmp(mode, "info") == 0 && seen_address != &other[1])
        return 4;
    if (strcmp(mode, "info") != 0 && !seen_blocked)
        return 5;
    if (seen_on_stack != (strcmp(mode, "stack") == 0))
        return 6;
    end("handled");
}
