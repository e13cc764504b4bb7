/*
 * check.h - shared by the test programs: message contents that show their origin, and lines of
 * output that do not depend on the run.
 *
 * A program prints its lines with the rank in front. The test compares the lines of a run with
 * the shim and of a run without it. Conditions of every run are checked here: a failure prints
 * "FAIL ..." and gives a non-zero exit status.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;

/* Where the lines go: with stdout of several ranks, a line could be cut by another's. */
static char *lines;
static size_t lines_length, lines_room;

__attribute__((unused, format(printf, 1, 2))) static void print_line(const char *format, ...) {
    va_list arguments;
    if (lines_room - lines_length < 1024) {
        lines_room = lines_room * 2 + 4096;
        lines = realloc(lines, lines_room);
    }
    lines_length += (size_t)snprintf(lines + lines_length, 64, "%d: ", rank);
    va_start(arguments, format);
    lines_length += (size_t)vsnprintf(lines + lines_length, 900, format, arguments);
    va_end(arguments);
    lines[lines_length++] = '\n';
}

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            fprintf(stderr, "FAIL %d: %s:%d: %s: ", rank, __FILE__, __LINE__, #condition);         \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
        }                                                                                          \
    } while (0)

/* Byte i of the message `which`. */
static inline unsigned char content(unsigned which, size_t i) {
    uint32_t x = (uint32_t)(which * 2654435761u + i * 40503u + 17u);
    return (unsigned char)(x >> 7 ^ x >> 19);
}

__attribute__((unused)) static void fill(void *buf, size_t bytes, unsigned which) {
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buf)[i] = content(which, i);
}

__attribute__((unused)) static size_t differs_at(const void *buf, size_t bytes, unsigned which) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)buf)[i] != content(which, i))
            return i;
    return bytes;
}

__attribute__((unused)) static unsigned hash(const void *buf, size_t bytes) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)buf)[i]) * 16777619u;
    return h;
}

/* Prints the lines of all ranks, in order, from rank 0; ends the program. */
__attribute__((unused)) static int finish(void) {
    int total = failures, length = (int)lines_length;
    if (rank == 0) {
        fwrite(lines, 1, lines_length, stdout);
        for (int from = 1; from < size; from++) {
            MPI_Recv(&length, 1, MPI_INT, from, 32001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            char *theirs = malloc((size_t)length + 1);
            MPI_Recv(theirs, length, MPI_CHAR, from, 32002, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fwrite(theirs, 1, (size_t)length, stdout);
            free(theirs);
        }
        fflush(stdout);
    } else {
        MPI_Send(&length, 1, MPI_INT, 0, 32001, MPI_COMM_WORLD);
        MPI_Send(lines, length, MPI_CHAR, 0, 32002, MPI_COMM_WORLD);
    }
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(lines);
    MPI_Finalize();
    return total != 0;
}

__attribute__((unused)) static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

#endif
