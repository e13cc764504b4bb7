/*
 * memory.c - measures the memory that a rank needs for a change beside the larger one of its old and its
 * new block.
 *
 *     memory STOP_FILE
 */
#include <cosched/malleable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROWS = 96, ROW_BYTES = 1 << 20 }; /* 96 MiB */

static int64_t peak_mib(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss / 1024;
}

/* Returns whether the block of this rank is full of the number that each rank wrote. */
static int is_whole(const struct cosched_block *block) {
    const char *data = block->data;
    const int64_t bytes = block->rows * block->row_bytes;
    return bytes > 0 && data[0] == 7 && memcmp(data, data + 1, (size_t)bytes - 1) == 0;
}

int main(int argc, char **argv) {
    struct cosched_block block;
    struct cosched_job *job;
    int64_t step;
    int stops = 0, whole = 1, rank, left;
    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, 0);
    cosched_job_scatter(job, &block, NULL, ROWS, ROW_BYTES);
    if (!cosched_job_joined(job))
        memset(block.data, 7, (size_t)(block.rows * block.row_bytes));
    while (argc == 2 && !stops && cosched_job_next(job, -1, &step) == 1) {
        if (cosched_job_resized(job)) {
            const int64_t before = peak_mib(), rows = block.rows;
            if (cosched_job_redistribute(job, &block, 1) != 0)
                break;
            const int64_t more = block.rows > rows ? block.rows - rows : 0;
            const int64_t extra = peak_mib() - before - more;
            int64_t most;
            MPI_Allreduce(&extra, &most, 1, MPI_INT64_T, MPI_MAX, cosched_job_comm(job));
            MPI_Comm_rank(cosched_job_comm(job), &rank);
            if (rank == 0)
                printf("extra %lld MiB\n", (long long)most);
        }
        whole &= is_whole(&block);
        stops = access(argv[1], F_OK) == 0;
        MPI_Bcast(&stops, 1, MPI_INT, 0, cosched_job_comm(job));
        usleep(2000);
    }
    left = cosched_job_left(job);
    free(block.data);
    stops = cosched_job_end(job) != 0 || (!left && !whole);
    MPI_Finalize();
    return stops;
}
