/* A parallel job that one resource of an emulated node limits (node.h). Many of them fit on a machine
   with few CPUs: all times but those of messages are waits.

   usage: limited KIND SECONDS RATE FOLDER

   KIND is cpu, stream, gups or io. Each rank stands for the processes of half a node. In each round it
   draws from the memory or the disk of its node, whose file in FOLDER has the name of the node
   (COSCHED_NODE). There are SECONDS times RATE rounds, less those of the time that the ranks needed to
   start. After some rounds all ranks wait for each other, asleep. Rank 0 prints "rounds N seconds S". */

#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "node.h"

#include <cosched/mark.h>

/* The shortest time of a round. */
static const double ROUND_S = 0.0025;
/* The parts of a round in which a rank alone occupies the bus, the banks or the disk. */
static const double BUS_PART = 0.6, BANK_PART = 0.7, DISK_PART = 0.6;
enum { ROUNDS_TOGETHER = 16, NAP_NS = 200000, LATE_NS = 2500000 };

static inline void kernel_fail(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

/* Begins a round when the last one was to end, if the wake-up was not much later: so late wake-ups
   do not slow the program. */
static void begin_round(void)
{
    const uint64_t last_ns = kernel_round.until_ns;
    kernel_round_begin();
    if (kernel_round.began_ns - last_ns < LATE_NS)
        kernel_round.began_ns = kernel_round.until_ns = last_ns;
}

static void draw(char kind)
{
    kernel_round_takes(ROUND_S);
    if (kind == 's')
        kernel_streams(BUS_PART * ROUND_S * kernel_node->bus_per_s);
    if (kind == 'g')
        kernel_accesses(BANK_PART * ROUND_S * kernel_node->bank_per_s);
    if (kind == 'i')
        kernel_moves(DISK_PART * ROUND_S * kernel_node->disk_per_s);
}

static void wait_for_all(void)
{
    const struct timespec nap = {0, NAP_NS};
    MPI_Request all;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (MPI_Test(&all, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&all, &done, MPI_STATUS_IGNORE))
        nanosleep(&nap, NULL);
}

/* How long ago this process was made. */
static double age_s(void)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL)
        kernel_fail("limited", "/proc/self/stat cannot be read");
    fclose(file);
    unsigned long long ticks = 0;
    const char *fields = strrchr(text, ')');
    if (fields == NULL ||
        sscanf(fields + 2,
               "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        kernel_fail("limited", "/proc/self/stat has another form");
    return 1e-9 * (double)kernel_clock_ns(CLOCK_BOOTTIME) -
           (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

int main(int argc, char **argv)
{
    if (argc != 5 || strchr("csgi", argv[1][0]) == NULL)
        kernel_fail("limited", "usage: limited cpu|stream|gups|io SECONDS RATE FOLDER");
    const double seconds = strtod(argv[2], NULL), rate = strtod(argv[3], NULL);
    const char *node = getenv("COSCHED_NODE");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", argv[4], node == NULL ? "" : node);
    setenv("KERNEL_NODE", path, 1);
    kernel_node_open("limited");
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double left_s = seconds - age_s();
    long rounds = left_s > 0.0 ? (long)(left_s * rate) : 0;
    MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long round = 1; round <= rounds; round++) {
        begin_round();
        draw(argv[1][0]);
        kernel_round_end();
        cosched_mark();
        if (round % ROUNDS_TOGETHER == 0 || round == rounds)
            wait_for_all();
    }
    if (rank == 0)
        printf("rounds %ld seconds %.6f\n", rounds, MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
