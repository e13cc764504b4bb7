/* compute: pairs of Gaussian deviates, hardly any communication.

Purpose. It has the EP benchmark of the NAS suite: every rank works on its own part of one
stream of random numbers, and a single Allreduce at the end adds the parts up. The
times at which the ranks run hardly matter to such jobs.

The numbers. x' = 5^13 x mod 2^46 from the suite's seed. Two numbers make a point of the
square (-1, 1)^2. A point inside the unit circle gives two Gaussian deviates (Marsaglia's
polar method). They are summed and counted by their larger absolute value.

Verification. The suite publishes the sums of its classes S, W, A and B, which are
2^24, 2^25, 2^28 and 2^30 pairs. The order of additions depends on the number of ranks, so
sums are compared to 1e-8, as the suite does. */

#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RINGS = 10, BLOCK_LOG2 = 16 };

static const uint64_t MULTIPLIER = UINT64_C(1220703125); /* 5^13 */
static const uint64_t SEED = UINT64_C(271828183);
static const uint64_t MASK = (UINT64_C(1) << 46) - 1;
static const double TOLERANCE = 1e-8;

struct known {
    const char *preset;
    int32_t log2_pairs;
    double sum_x, sum_y;
};

static const struct known KNOWN[] = {
    {"tiny", 24, -3.247834652034740e+3, -6.958407078382297e+3},
    {"short", 25, -2.863319731645753e+3, -6.320053679109499e+3},
    {"demo", 28, -4.295875165629892e+3, -1.580732573678431e+4},
    {"long", 30, 4.033815542441498e+4, -2.660669192809235e+4},
};

struct options {
    const struct known *known;
    bool inject_error, help;
};

/* All doubles, so that one Allreduce adds it up; counts below 2^53 are exact. */
struct tally {
    double sum_x, sum_y, rings[RINGS];
};

/* The stream's number after `count` steps from `x`. */
static uint64_t jump(uint64_t x, uint64_t count) {
    uint64_t factor = MULTIPLIER;
    for (; count > 0; count >>= 1, factor = factor * factor & MASK)
        if (count & 1)
            x = x * factor & MASK;
    return x;
}

static double next_coordinate(uint64_t *x) {
    *x = *x * MULTIPLIER & MASK;
    return 2.0 * (double)*x * 0x1p-46 - 1.0;
}

/* Adds the pairs [first, first + count) of the stream. */
static void add_pairs(struct tally *tally, uint64_t first, uint64_t count) {
    uint64_t x = jump(SEED, 2 * first);
    for (uint64_t n = 0; n < count; n++) {
        double a = next_coordinate(&x), b = next_coordinate(&x);
        double square = a * a + b * b;
        if (square > 1.0)
            continue;
        double scale = sqrt(-2.0 * log(square) / square);
        double gauss_x = a * scale, gauss_y = b * scale;
        tally->rings[(int)fmax(fabs(gauss_x), fabs(gauss_y))]++;
        tally->sum_x += gauss_x;
        tally->sum_y += gauss_y;
    }
}

static bool close_to(double got, double known) {
    return fabs(got - known) <= TOLERANCE * fabs(known);
}

static const struct known *find_preset(const char *name) {
    for (size_t k = 0; k < sizeof KNOWN / sizeof *KNOWN; k++)
        if (strcmp(name, KNOWN[k].preset) == 0)
            return &KNOWN[k];
    return NULL;
}

/* Returns the argument that makes no sense, or NULL. */
static const char *parse_options(int argc, char **argv, struct options *options) {
    *options = (struct options){.known = find_preset("demo")};
    for (int a = 1; a < argc; a++) {
        const char *name = argv[a], *value = a + 1 < argc ? argv[a + 1] : "";
        if (strcmp(name, "--inject-error") == 0) {
            options->inject_error = true;
            continue;
        }
        if (strcmp(name, "--help") == 0) {
            options->help = true;
            continue;
        }
        options->known = strcmp(name, "--preset") == 0 ? find_preset(value) : NULL;
        if (options->known == NULL)
            return name;
        a++;
    }
    return NULL;
}

static void print_help(void) {
    printf("usage: compute [--preset NAME] [--inject-error]\n"
           "Sums of Gaussian deviates; one message a rank, at the end.\n"
           "presets (demo if none is given):\n");
    for (size_t k = 0; k < sizeof KNOWN / sizeof *KNOWN; k++)
        printf("  %-6s 2^%" PRId32 " pairs\n", KNOWN[k].preset, KNOWN[k].log2_pairs);
    printf("--inject-error spoils the sum before the check, which then has to fail.\n"
           "Exit status: 0 verified, 1 wrong answer, 2 wrong usage.\n");
}

static int run(const struct options *options, int rank, int size) {
    const struct known *known = options->known;
    uint64_t block = UINT64_C(1) << BLOCK_LOG2;
    uint64_t blocks = UINT64_C(1) << (known->log2_pairs - BLOCK_LOG2);
    struct tally own = {0}, all = {0};

    double start = MPI_Wtime();
    for (uint64_t b = (uint64_t)rank; b < blocks; b += (uint64_t)size)
        add_pairs(&own, b * block, block);
    if (options->inject_error && rank == size - 1)
        own.sum_x += 1.0;
    MPI_Allreduce(&own, &all, sizeof own / sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;

    double gaussians = 0.0;
    for (int r = 0; r < RINGS; r++)
        gaussians += all.rings[r];
    bool verified = close_to(all.sum_x, known->sum_x) && close_to(all.sum_y, known->sum_y);
    if (rank == 0)
        printf("compute: pairs 2^%" PRId32
               " ranks %d gaussians %.0f sums %.15e %.15e seconds %.3f verification: %s\n",
               known->log2_pairs, size, gaussians, all.sum_x, all.sum_y, seconds,
               verified ? "success" : "failure");
    return verified ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, status;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    struct options options;
    const char *wrong = parse_options(argc, argv, &options);
    if (wrong != NULL) {
        if (rank == 0)
            fprintf(stderr, "compute: '%s' is no option, or its value is missing or no "
                            "preset; see --help\n", wrong);
        status = 2;
    } else if (options.help) {
        if (rank == 0)
            print_help();
        status = EXIT_SUCCESS;
    } else {
        status = run(&options, rank, size);
    }
    MPI_Finalize();
    return status;
}
