/*
 * holding.c - holds an array and sleeps in each iteration, as a malleable job whose changes are measured.
 * The same as holding.py, which describes the options.
 */
#include "table1.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { ROW_BYTES = 8192, ROWS_A_MEGABYTE = 1000000 / ROW_BYTES, ROWS_LEAST = 64 };

/* Writes the present time, whole or not at all. Returns whether it could. */
static bool mark(const char *path) {
    char aside[4096];
    struct timespec now;
    FILE *file;
    snprintf(aside, sizeof aside, "%s.new", path);
    file = fopen(aside, "w");
    if (file == NULL)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(file, "%lld", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
    return fclose(file) == 0 && rename(aside, path) == 0;
}

/* Opens the file of a rank; returns -1 if there is none. */
static int open_block(const char *folder, int32_t rank, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/block-%d", folder, rank);
    return open(path, flags, 0600);
}

/* Writes the block of this rank. Returns whether it could. */
static bool save(const char *folder, int32_t rank, const struct cosched_block *block) {
    const int file = open_block(folder, rank, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    int64_t left = block->rows * block->row_bytes;
    const char *at = block->data;
    ssize_t wrote = 0;
    while (file >= 0 && left > 0 && (wrote = write(file, at, (size_t)left)) > 0) {
        at += wrote;
        left -= wrote;
    }
    return file >= 0 && close(file) == 0 && left == 0;
}

/* Reads a part of a file. Returns whether it could. */
static bool read_part(int file, char *to, int64_t bytes, int64_t offset) {
    ssize_t got = 1;
    while (bytes > 0 && (got = pread(file, to, (size_t)bytes, offset)) > 0) {
        to += got;
        offset += got;
        bytes -= got;
    }
    return bytes == 0;
}

/* Fills the block of this rank from the files that another number of ranks has written. Returns whether
 * it could. */
static bool load(const char *folder, struct cosched_block *block) {
    const int64_t first = block->first * ROW_BYTES, last = first + block->rows * ROW_BYTES;
    int64_t start = 0;
    bool good = true;
    int file;
    for (int32_t rank = 0; good && (file = open_block(folder, rank, O_RDONLY | O_CLOEXEC)) >= 0;
         rank++) {
        struct stat found;
        good = fstat(file, &found) == 0;
        const int64_t end = start + found.st_size;
        const int64_t low = first > start ? first : start, high = last < end ? last : end;
        if (good && low < high)
            good = read_part(file, (char *)block->data + (low - first), high - low, low - start);
        start = end;
        close(file);
    }
    return good && start >= last;
}

/* Waits until all ranks are here with their data, and writes the time. */
static bool begin(struct cosched_job *job, const char *marked) {
    int32_t rank;
    MPI_Barrier(cosched_job_comm(job));
    MPI_Comm_rank(cosched_job_comm(job), &rank);
    return rank != 0 || marked == NULL || mark(marked);
}

int main(int argc, char **argv) {
    const int64_t wanted = (int64_t)number(argc, argv, "--megabytes", 0) * ROWS_A_MEGABYTE;
    const char *loaded = option(argc, argv, "--load"), *saved = option(argc, argv, "--save");
    struct run run = {.size = wanted < ROWS_LEAST ? ROWS_LEAST : wanted,
                      .until = option(argc, argv, "--until"),
                      .pause_s = number(argc, argv, "--pause", 0.005)};
    struct cosched_block block;
    struct cosched_job *job;
    int32_t rank;
    int64_t step;
    bool good = true;

    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, 0);
    cosched_job_scatter(job, &block, NULL, run.size, ROW_BYTES);
    if (!cosched_job_joined(job))
        good = (loaded == NULL || load(loaded, &block)) && begin(job, option(argc, argv, "--mark"));
    while (next_step(&run, job, &step) == 1) {
        if (cosched_job_resized(job) && cosched_job_redistribute(job, &block, 1) != 0)
            break;
        if (!goes_on(&run, job, step))
            break;
    }
    if (!cosched_job_left(job) && saved != NULL) {
        MPI_Comm_rank(cosched_job_comm(job), &rank);
        good = save(saved, rank, &block) && good;
    }
    free(block.data);
    good = cosched_job_end(job) == 0 && good;
    MPI_Finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
