/*
 * cl.c - CL: comparison of gene sequences, as a malleable job. The source sequences are cut into blocks.
 * In each iteration all of them are compared with one target sequence, which rank 0 sends: the score of
 * the best local alignment (Smith and Waterman) is added to that of the source. The same as cl.py.
 */
#include "table1.h"

static const struct problem problems[] = {{25, 10}, {50, 16}, {100, 24}, {200, 32}};

enum { LENGTH = 64, TARGETS = 100, MATCH = 5, MISMATCH = -3, GAP = 4 };

/* Fills a sequence by its number: letters from 0 to 3. */
static void make_sequence(uint8_t letters[LENGTH], int64_t number) {
    for (uint64_t i = 0; i < LENGTH; i++)
        letters[i] = (uint8_t)(mixed((uint64_t)number * LENGTH + i) & 3);
}

static int32_t largest(int32_t one, int32_t other) { return one > other ? one : other; }

/* Returns the score of the best local alignment. */
static int32_t score(const uint8_t source[LENGTH], const uint8_t target[LENGTH]) {
    int32_t row[LENGTH + 1] = {0}, best = 0;
    for (int i = 0; i < LENGTH; i++) {
        int32_t diagonal = 0;
        for (int j = 0; j < LENGTH; j++) {
            const int32_t paired = diagonal + (source[j] == target[i] ? MATCH : MISMATCH);
            diagonal = row[j + 1];
            row[j + 1] = largest(largest(0, paired), largest(row[j + 1], row[j]) - GAP);
            best = largest(best, row[j + 1]);
        }
    }
    return best;
}

enum { SOURCES, TOTALS, BLOCKS };

static void compare(MPI_Comm comm, struct cosched_block blocks[BLOCKS], int64_t step) {
    const uint8_t *source = blocks[SOURCES].data;
    int64_t *total = blocks[TOTALS].data;
    uint8_t target[LENGTH];
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0)
        make_sequence(target, (INT64_C(1) << 32) + step);
    MPI_Bcast(target, LENGTH, MPI_BYTE, 0, comm);
    for (int64_t i = 0; i < blocks[SOURCES].rows; i++)
        total[i] += score(source + i * LENGTH, target);
}

int main(int argc, char **argv) {
    struct run run = read_run(argc, argv, problems, TARGETS);
    struct cosched_block blocks[BLOCKS];
    struct cosched_job *job;
    int64_t step;

    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, run.ideal);
    cosched_job_scatter(job, &blocks[SOURCES], NULL, run.size, LENGTH);
    cosched_job_scatter(job, &blocks[TOTALS], NULL, run.size, sizeof(int64_t));
    for (int64_t i = 0; i < blocks[SOURCES].rows; i++)
        make_sequence((uint8_t *)blocks[SOURCES].data + i * LENGTH, blocks[SOURCES].first + i);
    while (next_step(&run, job, &step) == 1) {
        if (cosched_job_resized(job) && cosched_job_redistribute(job, blocks, BLOCKS) != 0)
            break;
        if (!goes_on(&run, job, step))
            break;
        compare(cosched_job_comm(job), blocks, step);
    }
    free(blocks[SOURCES].data);
    return end_run(&run, job, "cl", &blocks[TOTALS]);
}
