/* files: each rank writes a file and waits for the disk after each block.

Purpose. A job that waits for a disk leaves its CPU to others, as one that waits for messages may.

    files --megabytes N [--block KIB]

Each rank makes a file in its directory, writes N MB in blocks, calls fsync after each, meets the
other ranks in a barrier. The file has no name once it is open, so nothing is left however it ends.

Verification. The length of each file must be that of all blocks. */

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEGABYTES_MAX = 1 << 20, BLOCK_KIB = 256, BLOCK_KIB_MAX = 1 << 16 };

static int open_nameless(void) {
    char name[] = "cosched-files-XXXXXX";
    int file = mkstemp(name);
    if (file < 0)
        return -errno;
    return unlink(name) == 0 ? file : -errno;
}

static int write_block(int file, const char *block, size_t size) {
    while (size > 0) {
        ssize_t done = write(file, block, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        block += done;
        size -= (size_t)done;
    }
    return fsync(file) == 0 ? 0 : -errno;
}

/* Writes `total` bytes; returns 0 or -errno. */
static int write_file(int64_t total, size_t size) {
    char *block = calloc(1, size);
    if (block == NULL)
        return -ENOMEM;
    int file = open_nameless();
    int status = file < 0 ? file : 0;
    for (int64_t left = total; status == 0 && left > 0;) {
        size_t now = left < (int64_t)size ? (size_t)left : size;
        status = write_block(file, block, now);
        left -= (int64_t)now;
    }
    struct stat found;
    if (status == 0 && fstat(file, &found) != 0)
        status = -errno;
    if (status == 0 && found.st_size != total)
        status = -EIO;
    if (file >= 0)
        close(file);
    free(block);
    return status;
}

static int64_t number(const char *text, int64_t most) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value >= 1 && value <= most ? value : -1;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int64_t megabytes = -1, kib = BLOCK_KIB;
    int wrong = argc % 2 == 0;
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--megabytes") == 0)
            megabytes = number(argv[i + 1], MEGABYTES_MAX);
        else if (strcmp(argv[i], "--block") == 0)
            kib = number(argv[i + 1], BLOCK_KIB_MAX);
        else
            wrong = 1;
    int rank, worst;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (wrong || megabytes < 0 || kib < 0) {
        if (rank == 0)
            fprintf(stderr, "usage: files --megabytes N [--block KIB]\n");
        MPI_Finalize();
        return 2;
    }
    int status = write_file(megabytes * 1000000, (size_t)kib << 10);
    if (status < 0)
        fprintf(stderr, "files: rank %d: %s\n", rank, strerror(-status));
    int failed = status < 0;
    MPI_Allreduce(&failed, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && !worst)
        printf("files: %" PRId64 " MB a rank: verified\n", megabytes);
    MPI_Finalize();
    return worst;
}
