#define _GNU_SOURCE
#include "held_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES (64u * 1024u)
#define KERNEL_MASK_BYTES 8
/* More than the kernel's struct sigaction. All zero is the default action. */
#define ACTION_BYTES 64

/*
 * The new process shares errno with its maker, so its system calls must not set it. On other
 * machines than these two a failing call may change the maker's errno. Only a start that
 * fails makes such a call. Sanitizers keep their state in shared memory, too.
 */
#define IN_NEW_PROCESS __attribute__((no_sanitize("address", "undefined")))

#if defined(__x86_64__)
IN_NEW_PROCESS static long call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
IN_NEW_PROCESS static long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return x0;
}
#else
IN_NEW_PROCESS static long call(long number, long a, long b, long c, long d, long e) {
    long result = syscall(number, a, b, c, d, e);
    return result == -1 ? -errno : result;
}
#endif

IN_NEW_PROCESS static void end(int32_t status) {
    for (;;)
        call(SYS_exit_group, status, 0, 0, 0, 0);
}

IN_NEW_PROCESS static long set_signals(const struct cosched_held *held) {
    uint64_t action[ACTION_BYTES / sizeof(uint64_t)] = {0};
    long result = 0;
    for (uint32_t i = 0; i < held->defaults_count && result == 0; i++)
        result = call(SYS_rt_sigaction, held->defaults[i], (long)action, 0,
                      KERNEL_MASK_BYTES, 0);
    if (result == 0)
        result = call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&held->signals, 0,
                      KERNEL_MASK_BYTES, 0);
    return result;
}

IN_NEW_PROCESS static long keep(int32_t descriptor) {
    return call(SYS_fcntl, descriptor, F_SETFD, 0, 0, 0);
}

IN_NEW_PROCESS static long set_descriptors(const struct cosched_held *held) {
    long result = call(SYS_close, held->start_pipe_of_maker, 0, 0, 0, 0);
    for (int32_t i = 0; i < 3 && result >= 0; i++)
        result = held->standard[i] == i ? keep(i)
                                         : call(SYS_dup3, held->standard[i], i, 0, 0, 0);
    for (uint32_t i = 0; i < held->inherited_count && result >= 0; i++)
        result = keep(held->inherited[i]);
    return result < 0 ? result : 0;
}

IN_NEW_PROCESS static long set_cpus(const struct cosched_held *held) {
    if (held->cpu_words == 0)
        return 0;
    long bytes = (long)(held->cpu_words * sizeof *held->cpus);
    return call(SYS_sched_setaffinity, 0, bytes, (long)held->cpus, 0, 0);
}

/* Returns once the order to start has come; ends the process if the pipe closes. */
IN_NEW_PROCESS static long wait_for_start(const struct cosched_held *held) {
    char byte;
    long result;
    do {
        result = call(SYS_read, held->start_pipe, (long)&byte, 1, 0, 0);
    } while (result == -EINTR);
    if (result == 0)
        end(0);
    return result < 0 ? result : 0;
}

IN_NEW_PROCESS static long become_program(const struct cosched_held *held) {
    long result = call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (call(SYS_getppid, 0, 0, 0, 0, 0) != held->maker)
        end(held->status); /* it has ended already */
    if (result == 0)
        result = call(SYS_setpgid, 0, 0, 0, 0, 0);
    if (result == 0)
        result = set_signals(held);
    if (result == 0)
        result = set_descriptors(held);
    if (result == 0)
        result = set_cpus(held);
    if (result == 0)
        result = wait_for_start(held);
    if (result == 0)
        result = call(SYS_execve, (long)held->path, (long)held->argv,
                      (long)__atomic_load_n(&held->environ, __ATOMIC_ACQUIRE), 0, 0);
    return result;
}

IN_NEW_PROCESS static int run(void *argument) {
    const struct cosched_held *held = argument;
    int32_t error = (int32_t)-become_program(held);
    call(SYS_write, held->failure, (long)&error, sizeof error, 0, 0);
    end(held->status);
    return 0;
}

/* Makes the process with all signals blocked: until it has reset them, a handler of the
 * maker would run in its memory. */
static int make(struct cosched_held *held) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    memcpy(&held->signals, &before, sizeof held->signals);
    int pid = clone(run, (char *)held->stack + STACK_BYTES, CLONE_VM | SIGCHLD, held);
    int result = pid < 0 ? -errno : pid;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

int cosched_held_start(struct cosched_held *held) {
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return -errno;
    held->stack = stack;
    held->maker = getpid();
    int pid = make(held);
    if (pid < 0) {
        cosched_held_free(held);
        return pid;
    }
    held->pid = pid;
    return 0;
}

void cosched_held_free(struct cosched_held *held) {
    if (held->stack != NULL)
        munmap(held->stack, STACK_BYTES);
    held->stack = NULL;
}
