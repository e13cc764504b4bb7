/*
 * ge.c - GE: Gaussian elimination with partial pivoting, as a malleable job. An iteration eliminates
 * one column. Rows are not exchanged: each row has the number of the iteration in which it was the pivot,
 * and moves with it. After a system comes the next one. The same as ge.py.
 */
#include "table1.h"

#include <math.h>

static const struct problem problems[] = {{128, 6}, {256, 8}, {512, 12}, {1024, 18}};

/* In the last place of a row that has not been a pivot. */
static const double WAITS = -1.0;

/* Fills a rank's rows of a system: coefficients, right side, WAITS. The solution is 1 everywhere. */
static void fill(struct cosched_block *block, int64_t size, int64_t system) {
    double *row = block->data;
    for (int64_t i = 0; i < block->rows; i++, row += size + 2) {
        uint64_t number = ((uint64_t)system << 40) + (uint64_t)((block->first + i) * size);
        row[size] = 0;
        for (int64_t j = 0; j < size; j++) {
            row[j] = (double)(mixed(number++) >> 40) / 16777216.0;
            row[size] += row[j];
        }
        row[size + 1] = WAITS;
    }
}

/* Returns the rank of the pivot. mine: the best row of this rank. The first of equal ones counts. */
static int choose(MPI_Comm comm, const struct cosched_block *block, int64_t width, int64_t column,
                  int64_t *mine) {
    const double *row = block->data;
    struct {
        double value;
        int rank;
    } best = {-1.0, 0}, largest;
    MPI_Comm_rank(comm, &best.rank);
    *mine = 0;
    for (int64_t i = 0; i < block->rows; i++, row += width)
        if (row[width - 1] == WAITS && fabs(row[column]) > best.value) {
            best.value = fabs(row[column]);
            *mine = i;
        }
    /* Of equal values the lowest rank has the first row. */
    MPI_Allreduce(&best, &largest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    return largest.rank;
}

/* Eliminates a column from all rows that wait, after the choice of a pivot. */
static void eliminate(MPI_Comm comm, struct cosched_block *block, int64_t width, int64_t column,
                      double *pivot) {
    double *row = block->data;
    int64_t mine;
    int rank;
    const int owner = choose(comm, block, width, column, &mine);
    MPI_Comm_rank(comm, &rank);
    if (rank == owner) {
        memcpy(pivot, row + mine * width, (size_t)width * sizeof *pivot);
        row[mine * width + width - 1] = (double)column;
    }
    MPI_Bcast(pivot, (int)width, MPI_DOUBLE, owner, comm);
    for (int64_t i = 0; i < block->rows; i++, row += width) {
        const double factor = row[column] / pivot[column];
        for (int64_t j = column; j < width - 1 && row[width - 1] == WAITS; j++)
            row[j] -= factor * pivot[j];
    }
}

int main(int argc, char **argv) {
    struct run run = read_run(argc, argv, problems, 0);
    const int64_t width = run.size + 2;
    double *pivot = malloc((size_t)width * sizeof *pivot);
    struct cosched_block block;
    struct cosched_job *job;
    int64_t step;
    int status;

    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, run.ideal);
    cosched_job_scatter(job, &block, NULL, run.size, width * (int64_t)sizeof(double));
    while (next_step(&run, job, &step) == 1) {
        if (cosched_job_resized(job) && cosched_job_redistribute(job, &block, 1) != 0)
            break;
        if (!goes_on(&run, job, step))
            break;
        if (step % run.size == 0)
            fill(&block, run.size, step / run.size);
        eliminate(cosched_job_comm(job), &block, width, step % run.size, pivot);
    }
    status = end_run(&run, job, "ge", &block);
    free(pivot);
    return status;
}
