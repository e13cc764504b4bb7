/* pulse ROUNDS [MIB]: ranks that compute and exchange a number in each round.
 *
 * With MIB each rank then writes to as much memory. Rank 0 prints the sum of the exchange. It
 * shows whether all rounds were right. Each rank prints one line: its node, its
 * CPU time in seconds, the CPUs that it may use, its control group.
 *
 * MPICH 4.0.2 over UCX and TCP can stay in MPI_Finalize for ever (docs/families.md). On these
 * slow machines it often does, so each rank ends itself then. */

#define _GNU_SOURCE

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORK = 20000, LINE = 4096, MIB = 1 << 20, FINALIZE_S = 20 };

/* Computes for a while; returns 0, which the compiler cannot foresee. */
static double work(void)
{
    volatile double x = 1.0;
    for (int i = 0; i < WORK; i++)
        x = x * 0.5 + 0.5;
    return x - 1.0;
}

static double cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Copies the value of a line "NAME:VALUE" of a file, without blanks in front. */
static void find(const char *file, const char *name, char *value)
{
    char line[LINE];
    FILE *lines = fopen(file, "r");
    strcpy(value, "none");
    while (lines && fgets(line, sizeof line, lines)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            strcpy(value, line + strlen(name) + strspn(line + strlen(name), " \t"));
            value[strcspn(value, "\n")] = '\0';
        }
    }
    if (lines)
        fclose(lines);
}

static void leave(int signal)
{
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv)
{
    char node[256], cpus[LINE], group[LINE], line[3 * LINE];
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    size_t mib = argc > 2 ? (size_t)atol(argv[2]) : 0;
    double total = 0;
    for (long i = 0; i < rounds; i++) {
        double own = work() + rank + 1, sum = 0;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        total += sum;
    }
    for (size_t i = 0; i < mib; i++) {
        char *memory = malloc(MIB);
        if (!memory)
            MPI_Abort(MPI_COMM_WORLD, 3);
        memset(memory, 1, MIB);
    }
    gethostname(node, sizeof node);
    find("/proc/self/status", "Cpus_allowed_list:", cpus);
    find("/proc/self/cgroup", "0::", group);
    if (rank == 0)
        printf("sum %.0f of %.0f\n", total, rounds * size * (size + 1) / 2.0);
    snprintf(line, sizeof line, "rank %d %s %.2f %s %s\n", rank, node, cpu_s(), cpus, group);
    fputs(line, stdout);
    fflush(stdout);
    signal(SIGALRM, leave);
    alarm(FINALIZE_S);
    MPI_Finalize();
    return 0;
}
