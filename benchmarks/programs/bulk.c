/* bulk: steps of computation, after each of which neighbours exchange a word.

Purpose. It has the bulk-synchronous pattern at any grain: a rank computes for WORK units,
sends its number to its right neighbour and receives the number of its left neighbour. WORK
alone decides how often ranks need each other. So a series of values shows at which grain it
matters that the ranks run at the same time.

    bulk --steps N --work K [--inject-error]

A unit is one step of x' = A x + C mod 2^64, about a nanosecond. Each step needs the one before.

Verification. K units together are one such step with powers of A, found in log K
multiplications. So rank 0 quickly repeats the whole exchange and compares all bits of all
ranks' numbers. */

#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, RANKS_MAX = 4096 };

static const uint64_t A = UINT64_C(6364136223846793005);
static const uint64_t C = UINT64_C(1442695040888963407);

struct step {
    uint64_t factor, summand;
};

static uint64_t seed(int rank) { return UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(rank + 1); }

static uint64_t compute(uint64_t x, int64_t work) {
    for (int64_t i = 0; i < work; i++) {
        x = A * x + C;
        __asm__ volatile("" : "+r"(x)); /* or the compiler may shorten the chain */
    }
    return x;
}

static struct step after(struct step first, struct step second) {
    return (struct step){second.factor * first.factor,
                         second.factor * first.summand + second.summand};
}

/* `work` units as one step. */
static struct step power(int64_t work) {
    struct step all = {1, 0}, twice = {A, C};
    for (; work > 0; work >>= 1, twice = after(twice, twice))
        if (work & 1)
            all = after(all, twice);
    return all;
}

static uint64_t run(int64_t steps, int64_t work, int rank, int ranks) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    uint64_t x = seed(rank), heard;
    for (int64_t i = 0; i < steps; i++) {
        x = compute(x, work);
        MPI_Sendrecv(&x, 1, MPI_UINT64_T, right, TAG, &heard, 1, MPI_UINT64_T, left, TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        x ^= heard;
    }
    return x;
}

static void expect(uint64_t *x, int64_t steps, int64_t work, int ranks) {
    uint64_t sent[RANKS_MAX];
    struct step whole = power(work);
    for (int rank = 0; rank < ranks; rank++)
        x[rank] = seed(rank);
    for (int64_t i = 0; i < steps; i++) {
        for (int rank = 0; rank < ranks; rank++)
            sent[rank] = whole.factor * x[rank] + whole.summand;
        for (int rank = 0; rank < ranks; rank++)
            x[rank] = sent[rank] ^ sent[(rank + ranks - 1) % ranks];
    }
}

static int64_t number(const char *text) {
    char *end;
    long long value = strtoll(text, &end, 10);
    return *text && !*end && value > 0 ? value : -1;
}

int main(int argc, char **argv) {
    int64_t steps = -1, work = -1;
    int inject = 0, rank, ranks;
    for (int at = 1; at < argc; at++)
        if (strcmp(argv[at], "--inject-error") == 0)
            inject = 1;
        else if (strcmp(argv[at], "--steps") == 0 && at + 1 < argc)
            steps = number(argv[++at]);
        else if (strcmp(argv[at], "--work") == 0 && at + 1 < argc)
            work = number(argv[++at]);
        else
            steps = work = -1, at = argc;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int usable = steps > 0 && work > 0 && ranks <= RANKS_MAX;
    if (!usable) {
        if (rank == 0)
            fprintf(stderr, "usage: bulk --steps N --work K [--inject-error], "
                            "on up to %d ranks\n", RANKS_MAX);
        MPI_Finalize();
        return 2;
    }
    double began = MPI_Wtime();
    uint64_t mine = run(steps, work, rank, ranks), all[RANKS_MAX], right[RANKS_MAX];
    double seconds = MPI_Wtime() - began;
    if (inject && rank == ranks - 1)
        mine++;
    MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    int same = 1;
    if (rank == 0) {
        expect(right, steps, work, ranks);
        same = memcmp(all, right, sizeof *all * (size_t)ranks) == 0;
        printf("bulk: %d ranks, %" PRId64 " steps of %" PRId64 " units, %.3f s\n", ranks,
               steps, work, seconds);
        printf("verification: %s\n", same ? "success" : "failure");
    }
    MPI_Bcast(&same, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return same ? 0 : 1;
}
