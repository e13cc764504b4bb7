/*
 * sten.c - STEN: Jacobi's method for Laplace's equation on a square grid, as a malleable job. Each rank
 * needs the border rows of its neighbours in each iteration. The same as sten.py.
 */
#include "table1.h"

static const struct problem problems[] = {{128, 4}, {256, 8}, {512, 10}, {1024, 14}};

/* Fills the grid before the first iteration: one hot edge, and a bump inside. */
static void fill(struct cosched_block *block, int64_t side) {
    double *grid = block->data;
    for (int64_t i = 0; i < block->rows; i++) {
        double *row = grid + i * side;
        for (int64_t j = 0; j < side && block->first + i == 0; j++)
            row[j] = 1.0 + (double)j / (double)side;
        if (block->first + i == side / 2)
            row[side / 3] = 5.0;
    }
}

/* Fills the rows above and below the block from the neighbours'. */
static void exchange(MPI_Comm comm, const double *grid, int64_t rows, int64_t side, double *above,
                     double *below) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    const int count = (int)side;
    MPI_Sendrecv(grid + (rows - 1) * side, count, MPI_DOUBLE, down, 0, above, count, MPI_DOUBLE,
                 up, 0, comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(grid, count, MPI_DOUBLE, up, 0, below, count, MPI_DOUBLE, down, 0, comm,
                 MPI_STATUS_IGNORE);
}

/* Carries out an iteration. The rim of the grid stays. */
static void iterate(MPI_Comm comm, struct cosched_block *block, int64_t side, double *spare) {
    double *grid = block->data, *above = spare, *below = spare + side, *old = spare + 2 * side;
    exchange(comm, grid, block->rows, side, above, below);
    for (int64_t i = 0; i < block->rows; i++) {
        double *row = grid + i * side;
        const double *under = i + 1 < block->rows ? row + side : below;
        memcpy(old, row, (size_t)side * sizeof *old);
        if (block->first + i > 0 && block->first + i < side - 1)
            for (int64_t j = 1; j < side - 1; j++)
                row[j] = 0.25 * (above[j] + under[j] + old[j - 1] + old[j + 1]);
        memcpy(above, old, (size_t)side * sizeof *old);
    }
}

int main(int argc, char **argv) {
    struct run run = read_run(argc, argv, problems, 1000);
    double *spare = malloc((size_t)run.size * 3 * sizeof *spare);
    struct cosched_block block;
    struct cosched_job *job;
    int64_t step;
    int status;

    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, run.ideal);
    cosched_job_scatter(job, &block, NULL, run.size, run.size * (int64_t)sizeof(double));
    fill(&block, run.size);
    while (next_step(&run, job, &step) == 1) {
        if (cosched_job_resized(job) && cosched_job_redistribute(job, &block, 1) != 0)
            break;
        if (!goes_on(&run, job, step))
            break;
        iterate(cosched_job_comm(job), &block, run.size, spare);
    }
    status = end_run(&run, job, "sten", &block);
    free(spare);
    return status;
}
