/* wavefront: symmetric successive over-relaxation (SSOR) in a pipeline of small messages.

Purpose. It has the communication of the LU benchmark of the NAS suite: each iteration
sweeps a cube of grid points from one corner to the other and back. A rank owns a tile of
every plane; before it may work on a plane it needs the edges of its two upstream
neighbours, and it then sends its own edges downstream. Each plane and each edge is one
blocking message, so two ranks exchange thousands of messages of a few kilobytes a
second, and neither gets far while the other is not running.

The problem. FIELDS coupled unknowns u at each of GRID^3 points, with u known outside:

    6 u - (sum of the six neighbours' u) + C u = f,      C = DECAY I + COUPLING R

where R = circulant(2, -1, 0, ..., 0, -1) couples each field with the next. This is one
implicit step of a reaction-diffusion system, a Poisson equation with a decay.

How it checks itself. The solution is chosen: cubic polynomials, whose second differences
equal their second derivatives, so f follows from calculus instead of from this stencil.
With L and U the strictly lower and upper parts, the spectral radius of D^-1 (L + U) is
at most mu = 6 / (6 + DECAY), and that of LU at most 1/4; Young's theorem on SSOR then
says that with omega = 2 / (1 + sqrt(2 (1 - mu))) each iteration shrinks the error, in
the energy norm sqrt(e' A e), at least by rho = (1 - s) / (1 + s), s = sqrt((1 - mu) / 2).
After n iterations the error has to be below rho^n of the first one, whatever the grid,
n and the number of ranks.

Every number of ranks does the same arithmetic in the same order, so the checksum of the
solution's bits depends on grid and iterations alone. */

#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 8, ITERATIONS_A_CHECK = 25, GRID_MAX = 1024, ITERATIONS_MAX = 1000000 };

static const double DECAY = 0.1;
static const double COUPLING = 0.5;
static const double ROUNDING = 1e-11; /* the energy norm's floor, beside the first error */
static const double PI = 3.14159265358979323846;

enum tag { TAG_LOWER = 1, TAG_UPPER, TAG_FACE };

struct preset {
    const char *name;
    int32_t grid, iterations;
};

static const struct preset PRESETS[] = {
    {"tiny", 16, 20},
    {"short", 64, 40},
    {"demo", 64, 150},
    {"long", 64, 600},
};

struct options {
    int32_t grid, iterations;
    bool inject_error, help;
};

/* The two ends of one axis of the process grid, and this rank's share of the points. */
struct axis {
    int before, after; /* neighbouring ranks, or MPI_PROC_NULL */
    int32_t first;     /* global number of the first own point, from 1 */
    int32_t count;
};

/* Points are u[k][j][i][field]; own points start at 1, layer 0 and the last are ghosts. */
struct domain {
    int32_t grid;
    struct axis rows, columns; /* along j and along i */
    ptrdiff_t row, plane;      /* doubles from (k, j, i) to the next j, the next k */
    double omega;
    double inverse[FIELDS][FIELDS]; /* inverse of the diagonal block 6 I + C; symmetric */
    double *u, *f;
    double *packed; /* one column of a plane, or one face */
    uint64_t messages, bytes;
};

static ptrdiff_t at(const struct domain *d, int32_t k, int32_t j, int32_t i) {
    return k * d->plane + j * d->row + (ptrdiff_t)i * FIELDS;
}

/* ---- the problem ---- */

/* One of the solution's polynomials and its Laplacian at (x, y, z) in the unit cube. */
static double exact(int field, double x, double y, double z) {
    double w = (field + 1.0) / FIELDS;
    return 1.0 - y * y + w * x * x * x - 2.0 * y * y * y + (1.0 - w) * z * z * z +
           3.0 * x * y * z + w * x * x * z;
}

static double exact_laplacian(int field, double x, double y, double z) {
    double w = (field + 1.0) / FIELDS;
    return -2.0 + 6.0 * w * x - 12.0 * y + 6.0 * (1.0 - w) * z + 2.0 * w * z;
}

static int next_field(int field) { return (field + 1) % FIELDS; }

static int previous_field(int field) { return (field + FIELDS - 1) % FIELDS; }

static void exact_at(const struct domain *d, int32_t k, int32_t j, int32_t i, double out[FIELDS]) {
    double h = 1.0 / (d->grid + 1);
    double x = h * (d->columns.first + i - 1), y = h * (d->rows.first + j - 1), z = h * k;
    for (int m = 0; m < FIELDS; m++)
        out[m] = exact(m, x, y, z);
}

static void source_at(const struct domain *d, int32_t k, int32_t j, int32_t i, double out[FIELDS]) {
    double h = 1.0 / (d->grid + 1);
    double x = h * (d->columns.first + i - 1), y = h * (d->rows.first + j - 1), z = h * k;
    double u[FIELDS];
    exact_at(d, k, j, i, u);
    for (int m = 0; m < FIELDS; m++)
        out[m] = -h * h * exact_laplacian(m, x, y, z) + DECAY * u[m] +
                 COUPLING * (2.0 * u[m] - u[previous_field(m)] - u[next_field(m)]);
}

/* The block is circulant, so its inverse is a sum of cosines over its eigenvalues. */
static void invert_diagonal_block(double inverse[FIELDS][FIELDS]) {
    for (int m = 0; m < FIELDS; m++)
        for (int n = 0; n < FIELDS; n++) {
            double sum = 0.0;
            for (int p = 0; p < FIELDS; p++) {
                double turn = 2.0 * PI * p / FIELDS;
                double eigenvalue = 6.0 + DECAY + 2.0 * COUPLING * (1.0 - cos(turn));
                sum += cos(turn * abs(m - n)) / eigenvalue;
            }
            inverse[m][n] = sum / FIELDS;
        }
}

static double jacobi_gap(void) { return DECAY / (6.0 + DECAY); } /* 1 - mu */

static double best_omega(void) { return 2.0 / (1.0 + sqrt(2.0 * jacobi_gap())); }

static double contraction(void) {
    double s = sqrt(jacobi_gap() / 2.0);
    return (1.0 - s) / (1.0 + s);
}

/* Zero inside, the solution's values around the cube. */
static void set_up(struct domain *d) {
    int32_t top = d->grid + 1;
    for (int32_t k = 0; k <= top; k++)
        for (int32_t j = 0; j <= d->rows.count + 1; j++)
            for (int32_t i = 0; i <= d->columns.count + 1; i++) {
                int32_t y = d->rows.first + j - 1, x = d->columns.first + i - 1;
                bool inside = k > 0 && k < top && y > 0 && y < top && x > 0 && x < top;
                ptrdiff_t here = at(d, k, j, i);
                if (inside)
                    source_at(d, k, j, i, &d->f[here]);
                else
                    exact_at(d, k, j, i, &d->u[here]);
            }
}

/* ---- messages ---- */

static void send(struct domain *d, const double *data, ptrdiff_t doubles, int to, enum tag tag) {
    if (to == MPI_PROC_NULL)
        return;
    MPI_Send(data, (int)doubles, MPI_DOUBLE, to, (int)tag, MPI_COMM_WORLD);
    d->messages++;
    d->bytes += (uint64_t)doubles * sizeof *data;
}

static void receive(double *data, ptrdiff_t doubles, int from, enum tag tag) {
    MPI_Recv(data, (int)doubles, MPI_DOUBLE, from, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A column of one plane: points (k, 1.., i), which lie a row apart. */
static void send_column(struct domain *d, int32_t k, int32_t i, int to, enum tag tag) {
    if (to == MPI_PROC_NULL)
        return;
    for (int32_t j = 1; j <= d->rows.count; j++)
        memcpy(&d->packed[(ptrdiff_t)(j - 1) * FIELDS], &d->u[at(d, k, j, i)],
               FIELDS * sizeof(double));
    send(d, d->packed, (ptrdiff_t)d->rows.count * FIELDS, to, tag);
}

static void receive_column(struct domain *d, int32_t k, int32_t i, int from, enum tag tag) {
    if (from == MPI_PROC_NULL)
        return;
    receive(d->packed, (ptrdiff_t)d->rows.count * FIELDS, from, tag);
    for (int32_t j = 1; j <= d->rows.count; j++)
        memcpy(&d->u[at(d, k, j, i)], &d->packed[(ptrdiff_t)(j - 1) * FIELDS],
               FIELDS * sizeof(double));
}

/* A row of one plane: points (k, j, 1..), which lie side by side. */
static void send_row(struct domain *d, int32_t k, int32_t j, int to, enum tag tag) {
    send(d, &d->u[at(d, k, j, 1)], (ptrdiff_t)d->columns.count * FIELDS, to, tag);
}

static void receive_row(struct domain *d, int32_t k, int32_t j, int from, enum tag tag) {
    if (from != MPI_PROC_NULL)
        receive(&d->u[at(d, k, j, 1)], (ptrdiff_t)d->columns.count * FIELDS, from, tag);
}

/* One side of the tile over all planes, as one message: a row is `count` blocks, a
   column `count` blocks a row apart. */
static void copy_face(const struct domain *d, double *face, int32_t j, int32_t i, ptrdiff_t step,
                      int32_t count, bool into_tile) {
    for (int32_t k = 1; k <= d->grid; k++)
        for (int32_t n = 0; n < count; n++, face += FIELDS) {
            double *point = &d->u[at(d, k, j, i) + n * step];
            memcpy(into_tile ? point : face, into_tile ? face : point, FIELDS * sizeof *face);
        }
}

/* After a sweep back, only the ghosts before a tile (j = 0, i = 0) are old. */
static void refresh_ghosts(struct domain *d) {
    const struct {
        const struct axis *across;
        int32_t last_j, last_i, ghost_j, ghost_i, count;
        ptrdiff_t step;
    } sides[] = {
        {&d->rows, d->rows.count, 1, 0, 1, d->columns.count, FIELDS},
        {&d->columns, 1, d->columns.count, 1, 0, d->rows.count, d->row},
    };
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
        int to = sides[s].across->after, from = sides[s].across->before;
        ptrdiff_t doubles = (ptrdiff_t)d->grid * sides[s].count * FIELDS;
        double *out = d->packed, *in = d->packed + doubles;
        if (to != MPI_PROC_NULL) {
            copy_face(d, out, sides[s].last_j, sides[s].last_i, sides[s].step, sides[s].count,
                      false);
            d->messages++;
            d->bytes += (uint64_t)doubles * sizeof *out;
        }
        MPI_Sendrecv(out, (int)doubles, MPI_DOUBLE, to, TAG_FACE, in, (int)doubles, MPI_DOUBLE,
                     from, TAG_FACE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (from != MPI_PROC_NULL)
            copy_face(d, in, sides[s].ghost_j, sides[s].ghost_i, sides[s].step, sides[s].count,
                      true);
    }
}

/* ---- the solver ---- */

static void relax_point(const struct domain *d, ptrdiff_t here) {
    double *u = &d->u[here];
    const double *f = &d->f[here];
    double known[FIELDS], solved[FIELDS] = {0.0};
    for (int m = 0; m < FIELDS; m++)
        known[m] = f[m] + u[m - FIELDS] + u[m + FIELDS] + u[m - d->row] + u[m + d->row] +
                   u[m - d->plane] + u[m + d->plane];
    for (int n = 0; n < FIELDS; n++)
        for (int m = 0; m < FIELDS; m++)
            solved[m] += d->inverse[n][m] * known[n];
    for (int m = 0; m < FIELDS; m++)
        u[m] += d->omega * (solved[m] - u[m]);
}

static void sweep_lower(struct domain *d) {
    for (int32_t k = 1; k <= d->grid; k++) {
        receive_row(d, k, 0, d->rows.before, TAG_LOWER);
        receive_column(d, k, 0, d->columns.before, TAG_LOWER);
        for (int32_t j = 1; j <= d->rows.count; j++)
            for (int32_t i = 1; i <= d->columns.count; i++)
                relax_point(d, at(d, k, j, i));
        send_row(d, k, d->rows.count, d->rows.after, TAG_LOWER);
        send_column(d, k, d->columns.count, d->columns.after, TAG_LOWER);
    }
}

static void sweep_upper(struct domain *d) {
    for (int32_t k = d->grid; k >= 1; k--) {
        receive_row(d, k, d->rows.count + 1, d->rows.after, TAG_UPPER);
        receive_column(d, k, d->columns.count + 1, d->columns.after, TAG_UPPER);
        for (int32_t j = d->rows.count; j >= 1; j--)
            for (int32_t i = d->columns.count; i >= 1; i--)
                relax_point(d, at(d, k, j, i));
        send_row(d, k, 1, d->rows.before, TAG_UPPER);
        send_column(d, k, 1, d->columns.before, TAG_UPPER);
    }
}

struct norms {
    double residual; /* sqrt(r' r) */
    double energy;   /* sqrt(e' A e), the error's energy norm */
};

static struct norms measure(struct domain *d) {
    double sums[2] = {0.0, 0.0}, totals[2];
    refresh_ghosts(d);
    for (int32_t k = 1; k <= d->grid; k++)
        for (int32_t j = 1; j <= d->rows.count; j++)
            for (int32_t i = 1; i <= d->columns.count; i++) {
                const double *u = &d->u[at(d, k, j, i)], *f = &d->f[at(d, k, j, i)];
                double solution[FIELDS];
                exact_at(d, k, j, i, solution);
                for (int m = 0; m < FIELDS; m++) {
                    double around = u[m - FIELDS] + u[m + FIELDS] + u[m - d->row] +
                                    u[m + d->row] + u[m - d->plane] + u[m + d->plane];
                    double coupled = 2.0 * u[m] - u[previous_field(m)] - u[next_field(m)];
                    double r = f[m] + around - (6.0 + DECAY) * u[m] - COUPLING * coupled;
                    sums[0] += r * r;
                    sums[1] += r * (solution[m] - u[m]);
                }
            }
    MPI_Allreduce(sums, totals, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    /* Rounding may leave a converged sum just below zero; fabs keeps a NaN a NaN. */
    return (struct norms){sqrt(totals[0]), sqrt(fabs(totals[1]))};
}

/* The sum over all points of their bits times their odd number, modulo 2^64. */
static uint64_t checksum(const struct domain *d) {
    uint64_t sum = 0, total, edge = (uint64_t)d->grid + 2;
    for (int32_t k = 1; k <= d->grid; k++)
        for (int32_t j = 1; j <= d->rows.count; j++)
            for (int32_t i = 1; i <= d->columns.count; i++) {
                uint64_t y = (uint64_t)(d->rows.first + j), x = (uint64_t)(d->columns.first + i);
                uint64_t number = ((uint64_t)k * edge + y) * edge + x;
                for (int m = 0; m < FIELDS; m++) {
                    uint64_t bits;
                    memcpy(&bits, &d->u[at(d, k, j, i) + m], sizeof bits);
                    sum += bits * (2 * (number * FIELDS + (uint64_t)m) + 1);
                }
            }
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

/* ---- from the command line to the verdict ---- */

static struct axis split(int32_t grid, int parts, int part, int before, int after) {
    int32_t share = grid / parts, rest = grid % parts;
    return (struct axis){
        .before = part > 0 ? before : MPI_PROC_NULL,
        .after = part + 1 < parts ? after : MPI_PROC_NULL,
        .first = 1 + part * share + (part < rest ? part : rest),
        .count = share + (part < rest ? 1 : 0),
    };
}

static bool make_domain(struct domain *d, int32_t grid, const int parts[2], int rank) {
    memset(d, 0, sizeof *d);
    d->grid = grid;
    d->rows = split(grid, parts[0], rank / parts[1], rank - parts[1], rank + parts[1]);
    d->columns = split(grid, parts[1], rank % parts[1], rank - 1, rank + 1);
    d->row = (ptrdiff_t)(d->columns.count + 2) * FIELDS;
    d->plane = d->row * (d->rows.count + 2);
    d->omega = best_omega();
    invert_diagonal_block(d->inverse);
    size_t points = (size_t)d->plane * (size_t)(grid + 2);
    int32_t longest = d->rows.count > d->columns.count ? d->rows.count : d->columns.count;
    d->u = calloc(points, sizeof(double));
    d->f = calloc(points, sizeof(double));
    d->packed = calloc(2 * (size_t)grid * (size_t)longest * FIELDS, sizeof(double));
    return d->u != NULL && d->f != NULL && d->packed != NULL;
}

static void free_domain(struct domain *d) {
    free(d->u);
    free(d->f);
    free(d->packed);
}

static bool parse_count(const char *text, int32_t most, int32_t *out) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > most)
        return false;
    *out = (int32_t)value;
    return true;
}

static bool apply_preset(const char *name, struct options *options) {
    for (size_t p = 0; p < sizeof PRESETS / sizeof *PRESETS; p++)
        if (strcmp(name, PRESETS[p].name) == 0) {
            options->grid = PRESETS[p].grid;
            options->iterations = PRESETS[p].iterations;
            return true;
        }
    return false;
}

/* Returns the argument that makes no sense, or NULL. */
static const char *parse_options(int argc, char **argv, struct options *options) {
    *options = (struct options){0};
    (void)apply_preset("demo", options);
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
        bool good = false;
        if (strcmp(name, "-g") == 0)
            good = parse_count(value, GRID_MAX, &options->grid);
        else if (strcmp(name, "-i") == 0)
            good = parse_count(value, ITERATIONS_MAX, &options->iterations);
        else if (strcmp(name, "--preset") == 0)
            good = apply_preset(value, options);
        if (!good)
            return name;
        a++;
    }
    return NULL;
}

static void print_help(void) {
    printf("usage: wavefront [--preset NAME] [-g GRID] [-i ITERATIONS] [--inject-error]\n"
           "SSOR on GRID^3 points of %d fields, in a pipeline of small messages.\n"
           "presets (demo if none is given; later options override earlier ones):\n",
           (int)FIELDS);
    for (size_t p = 0; p < sizeof PRESETS / sizeof *PRESETS; p++)
        printf("  %-6s -g %" PRId32 " -i %" PRId32 "\n", PRESETS[p].name, PRESETS[p].grid,
               PRESETS[p].iterations);
    printf("--inject-error spoils one value before the check, which then has to fail.\n"
           "Exit status: 0 verified, 1 wrong answer, 2 wrong usage.\n");
}

static int run(const struct options *options, const int parts[2], int rank, int size) {
    struct domain d;
    if (!make_domain(&d, options->grid, parts, rank)) {
        fprintf(stderr, "wavefront: rank %d has no memory for its part of the grid; use a "
                        "smaller -g or more ranks\n", rank);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    set_up(&d);
    struct norms first = measure(&d), last = first;
    d.messages = d.bytes = 0;

    double start = MPI_Wtime();
    for (int32_t n = 1; n <= options->iterations; n++) {
        sweep_lower(&d);
        sweep_upper(&d);
        if (n == options->iterations && options->inject_error && rank == size - 1)
            d.u[at(&d, d.grid, d.rows.count, d.columns.count)] += 1.0;
        if (n % ITERATIONS_A_CHECK == 0 || n == options->iterations)
            last = measure(&d);
    }
    double seconds = MPI_Wtime() - start;

    uint64_t sum = checksum(&d), counts[2] = {d.messages, d.bytes}, totals[2];
    MPI_Allreduce(counts, totals, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    double error = last.energy / first.energy;
    bool verified = error <= pow(contraction(), options->iterations) + ROUNDING;
    if (rank == 0)
        printf("wavefront: grid %" PRId32 " ranks %d (%dx%d) iterations %" PRId32
               " residual %.3e error %.3e messages %" PRIu64 " bytes %" PRIu64
               " seconds %.3f checksum %016" PRIx64 " verification: %s\n",
               d.grid, size, parts[0], parts[1], options->iterations,
               last.residual / first.residual, error, totals[0], totals[1], seconds, sum,
               verified ? "success" : "failure");
    free_domain(&d);
    return verified ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, parts[2] = {0, 0}, status;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, parts);

    struct options options;
    const char *wrong = parse_options(argc, argv, &options);
    if (wrong != NULL) {
        if (rank == 0)
            fprintf(stderr, "wavefront: '%s' is no option, or its value is missing or out of "
                            "range; see --help\n", wrong);
        status = 2;
    } else if (options.help) {
        if (rank == 0)
            print_help();
        status = EXIT_SUCCESS;
    } else if (parts[0] > options.grid) {
        if (rank == 0)
            fprintf(stderr, "wavefront: a grid of %" PRId32 " cannot be split over %dx%d ranks; "
                            "use -g %d or more\n",
                    options.grid, parts[0], parts[1], parts[0]);
        status = 2;
    } else {
        status = run(&options, parts, rank, size);
    }
    MPI_Finalize();
    return status;
}
