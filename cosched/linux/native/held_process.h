/*
 * held_process.h - makes processes that are held and then become programs. A process shares
 * the memory of its maker until it becomes the program. held_process.py gives the reason.
 */
#ifndef COSCHED_LINUX_NATIVE_HELD_PROCESS_H
#define COSCHED_LINUX_NATIVE_HELD_PROCESS_H

#include <stdint.h>

/* cdef: begin */
/* A process and its program. The maker keeps all this in place until the process has ended.
 * environ may be set until the process may start, the rest before the start. */
struct cosched_held {
    const char *path;
    char *const *argv;
    char *const *environ;
    const int32_t *inherited; /* descriptors that the program keeps, beside standard */
    const int32_t *defaults;  /* signals that get their default action */
    const uint64_t *cpus;     /* a bit for each CPU; no words: those of the maker */
    uint32_t inherited_count;
    uint32_t defaults_count;
    uint32_t cpu_words;
    int32_t standard[3];         /* become descriptors 0 to 2 */
    int32_t start_pipe;          /* a byte: start; the end of file: end */
    int32_t start_pipe_of_maker; /* the other end, which the process closes */
    int32_t failure;             /* gets the errno, as int32_t, if there is no program */
    int32_t status;              /* the exit status then */
    int32_t pid;                 /* the start sets this and what follows */
    int32_t maker;
    uint64_t signals; /* the mask of blocked signals */
    void *stack;
};

/* Makes the process, in a process group of its own; the kernel kills it when this thread
 * ends. Returns 0 or -errno. */
int cosched_held_start(struct cosched_held *held);

/* Frees what the start made. The process must have ended. */
void cosched_held_free(struct cosched_held *held);
/* cdef: end */

#endif
