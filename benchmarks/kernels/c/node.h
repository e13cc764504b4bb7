/* An emulated node: a memory and a disk of stated speeds that all kernels on it share.

   A small machine cannot fill a real memory bus. So each kernel asks the emulated node how long
   its accesses take, and waits for that long; all else of it is real. The driver makes a file with
   the speeds (benchmarks/kernels/emulated.py), and the variable KERNEL_NODE has its path. Without
   it a kernel runs at the speed of the machine.

   Each part is one server with a queue: `free_ns` is the time at which its queue is empty.

     bus    bytes a second. A kernel that reads ahead waits for the bus alone.
     banks  accesses a second at random places. Reading ahead occupies the banks, too, but only a
            kernel that waits for each access waits for them. So streams slow random accesses, and
            these hardly slow streams: the one-way interference of Figures 3 and 4.
     disk   bytes a second, and a seek whenever another process is served. So several processes lose
            more than their number: Figure 2.

   Processors are emulated as well: a round lasts `stretch` times its CPU time. So more kernels fit
   on the machine than it has CPUs. */

#ifndef KERNEL_NODE_H
#define KERNEL_NODE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As benchmarks/kernels/emulated.py packs it. */
struct kernel_node {
    uint64_t magic;
    double stretch;         /* the time of a round, as a multiple of its CPU time */
    double bus_per_s;       /* bytes */
    double bank_per_s;      /* accesses */
    double bank_part;       /* the part of the bus's time in which streams occupy the banks */
    double disk_per_s;      /* bytes */
    double seek_s;          /* when another process is served */
    double access_s;        /* one access of one process, alone */
    double stream_per_s;    /* bytes that one process can read ahead */
    uint64_t bus_free_ns;   /* the rest: written by kernels */
    uint64_t bank_free_ns;
    uint64_t disk_free_ns;
    uint64_t disk_process;  /* that the disk served last */
};

#define KERNEL_NODE_MAGIC UINT64_C(0x65646f6e6b636f63)

static struct kernel_node *kernel_node;

static inline void kernel_fail(const char *name, const char *what);

static inline uint64_t kernel_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Maps the emulated node, if there is one. */
static inline void kernel_node_open(const char *name)
{
    const char *path = getenv("KERNEL_NODE");
    struct stat found;
    if (path == NULL || *path == '\0')
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &found) != 0 || found.st_size < (off_t)sizeof *kernel_node)
        kernel_fail(name, "KERNEL_NODE names no emulated node");
    kernel_node = mmap(NULL, sizeof *kernel_node, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (kernel_node == MAP_FAILED || kernel_node->magic != KERNEL_NODE_MAGIC)
        kernel_fail(name, "KERNEL_NODE names no emulated node");
}

/* Asks a server for so many seconds of its time. Returns when it will have done that. */
static inline uint64_t kernel_ask(uint64_t *free_ns, double seconds)
{
    const uint64_t now = kernel_clock_ns(CLOCK_MONOTONIC), cost = (uint64_t)(1e9 * seconds);
    uint64_t before = __atomic_load_n(free_ns, __ATOMIC_RELAXED), after;
    do
        after = (before > now ? before : now) + cost;
    while (!__atomic_compare_exchange_n(free_ns, &before, after, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return after;
}

static inline void kernel_sleep_until(uint64_t ns)
{
    const struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* The present round: when it began, the CPU time then, and when it ends at the earliest. */
static struct {
    uint64_t began_ns, cpu_ns, until_ns;
} kernel_round;

static inline void kernel_round_begin(void)
{
    if (kernel_node == NULL)
        return;
    kernel_round.began_ns = kernel_round.until_ns = kernel_clock_ns(CLOCK_MONOTONIC);
    kernel_round.cpu_ns = kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void kernel_round_lasts(uint64_t until_ns)
{
    if (until_ns > kernel_round.until_ns)
        kernel_round.until_ns = until_ns;
}

/* The same, for a time from the begin of the round. */
static inline void kernel_round_takes(double seconds)
{
    kernel_round_lasts(kernel_round.began_ns + (uint64_t)(1e9 * seconds));
}

/* The round reads or writes so many bytes ahead. */
static inline void kernel_streams(double bytes)
{
    if (kernel_node == NULL)
        return;
    const double seconds = bytes / kernel_node->bus_per_s;
    kernel_ask(&kernel_node->bank_free_ns, seconds * kernel_node->bank_part);
    kernel_round_lasts(kernel_ask(&kernel_node->bus_free_ns, seconds));
    kernel_round_takes(bytes / kernel_node->stream_per_s);
}

/* The round waits for so many accesses, one after the other. */
static inline void kernel_accesses(double count)
{
    if (kernel_node == NULL)
        return;
    kernel_round_lasts(kernel_ask(&kernel_node->bank_free_ns, count / kernel_node->bank_per_s));
    kernel_round_takes(count * kernel_node->access_s);
}

/* The round reads or writes so many bytes of a file. */
static inline void kernel_moves(double bytes)
{
    if (kernel_node == NULL)
        return;
    const uint64_t own = (uint64_t)getpid();
    const uint64_t last = __atomic_exchange_n(&kernel_node->disk_process, own, __ATOMIC_RELAXED);
    const double seek_s = last == own ? 0.0 : kernel_node->seek_s;
    kernel_round_lasts(
        kernel_ask(&kernel_node->disk_free_ns, seek_s + bytes / kernel_node->disk_per_s));
}

/* Waits for the end of the round. */
static inline void kernel_round_end(void)
{
    if (kernel_node == NULL)
        return;
    const uint64_t used = kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID) - kernel_round.cpu_ns;
    kernel_round_takes(1e-9 * (double)used * kernel_node->stretch);
    kernel_sleep_until(kernel_round.until_ns);
}

#endif
