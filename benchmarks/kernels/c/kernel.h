/* The common part of all node kernels.

   usage: KERNEL SECONDS SIZE_BYTES FOLDER

   A kernel makes its data, prints "ready" and waits for a line. Then it works in rounds of a
   few milliseconds for SECONDS. With SECONDS 0 it works until its standard input has a line
   or ends. After the first round it prints "running". At its end it checks its data and
   prints "work W seconds S". If the data is wrong or a call failed, it prints a line on
   standard error and exits with status 1.

   So a driver can start several kernels and measure one while the others run. With an emulated
   node (node.h) a round also draws from its memory or its disk. */

#ifndef KERNEL_H
#define KERNEL_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node.h"

struct kernel_arguments {
    double seconds;
    size_t size;
    const char *folder;
};

/* One line on standard error, and out. */
static inline void kernel_fail(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

static inline void *kernel_allocate(const char *name, size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size) != 0)
        kernel_fail(name, "no memory; give a smaller --size");
    return memory;
}

static inline struct kernel_arguments kernel_parse(int argc, char **argv)
{
    if (argc != 4)
        kernel_fail(argv[0], "usage: KERNEL SECONDS SIZE_BYTES FOLDER");
    char *end;
    struct kernel_arguments found = {.seconds = strtod(argv[1], &end), .folder = argv[3]};
    if (end == argv[1] || *end != '\0' || !(found.seconds >= 0.0))
        kernel_fail(argv[0], "SECONDS is not a number, 0 or more");
    found.size = strtoull(argv[2], &end, 10);
    if (end == argv[2] || *end != '\0' || found.size < 65536)
        kernel_fail(argv[0], "SIZE_BYTES is not a number, 65536 or more");
    return found;
}

static inline double kernel_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void kernel_print(const char *text)
{
    puts(text);
    fflush(stdout);
}

/* Waits for the line that starts the work. Exits at the end of the input. */
static inline void kernel_wait(void)
{
    char byte;
    ssize_t got;
    do {
        got = read(STDIN_FILENO, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            exit(1);
    } while (got < 0 || byte != '\n');
}

static inline int kernel_is_stopped(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

/* Whether there is another round. */
static inline int kernel_goes_on(const struct kernel_arguments *arguments, double begin)
{
    if (arguments->seconds > 0.0)
        return kernel_now() - begin < arguments->seconds;
    return !kernel_is_stopped();
}

static inline void kernel_report(double work, double seconds)
{
    printf("work %.17g seconds %.9f\n", work, seconds);
    fflush(stdout);
}

/* Runs a kernel of one process. round_once: returns the work done. verify: returns NULL, or
   a description of the fault. */
static inline int kernel_main(const char *name, const struct kernel_arguments *arguments,
                              double (*round_once)(void), const char *(*verify)(void))
{
    kernel_node_open(name);
    kernel_print("ready");
    kernel_wait();
    double begin = kernel_now(), work = 0.0;
    int said = 0;
    do {
        kernel_round_begin();
        work += round_once();
        kernel_round_end();
        if (!said)
            kernel_print("running");
        said = 1;
    } while (kernel_goes_on(arguments, begin));
    double seconds = kernel_now() - begin;
    const char *wrong = verify();
    if (wrong)
        kernel_fail(name, wrong);
    kernel_report(work, seconds);
    return 0;
}

#endif
