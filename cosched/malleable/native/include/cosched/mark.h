/*
 * cosched/mark.h - a program marks its iterations, so that cosched can compare its speed alone with its
 * speed beside other jobs. The header needs no library, and the program runs unchanged without cosched.
 */
#ifndef COSCHED_MARK_H
#define COSCHED_MARK_H

#include <dlfcn.h>
#include <stddef.h>

/* Counts an iteration of this rank. Call it once in each iteration, after MPI_Init, in one thread. */
static inline void cosched_mark(void) {
    static void (*count)(void);
    static int looked;
    if (!looked) {
        *(void **)&count = dlsym(NULL, "cosched_interposer_mark"); /* NULL: RTLD_DEFAULT */
        looked = 1;
    }
    if (count != NULL)
        count();
}

#endif
