/*
 * worlds.h - makes and ends ranks: a change of the job's communicator at a boundary. The same as
 * cosched/malleable/worlds.py, which has the reasons.
 */
#ifndef COSCHED_MALLEABLE_WORLDS_H
#define COSCHED_MALLEABLE_WORLDS_H

#include <mpi.h>
#include <stdbool.h>

#include "boundaries.h"
#include "plan.h"

/* Some bytes that grow. */
struct cosched_bytes {
    uint8_t *data;
    uint64_t count;
};

/* What the ranks of a new world are given to know. All processes of a job run one program on one kind
 * of machine, so it goes from one to the other as it lies in memory. */
struct cosched_welcome {
    uint64_t generation; /* of the change */
    int64_t step;        /* its boundary */
    struct cosched_plan plan;
    struct cosched_times times;    /* its phases so far */
    struct cosched_bytes prepared; /* what calls before the loop returned to the other ranks */
};

/* All ranks before and after a change, between its begin and its end. */
struct cosched_union {
    MPI_Comm comm;  /* of all of them */
    MPI_Comm after; /* the job's next communicator; MPI_COMM_NULL in a rank that ends */
    struct cosched_welcome welcome;
};

/* An intercommunicator, and the worlds of its ranks. */
struct cosched_bond {
    MPI_Comm comm;
    uint64_t *worlds;
    uint32_t count;
};

/* The communicator of the job, its ranks, and the bonds of this rank. */
struct cosched_worlds {
    MPI_Comm comm;
    struct cosched_rank *ranks;
    uint32_t count; /* of ranks; 0: the job keeps its size */
    struct cosched_bond *bonds;
    uint32_t bond_count;
};

/* Returns the change that made this process; 0 if it began the job. */
uint64_t cosched_worlds_own_generation(void);

/* Starts the ranks of a new world. Collective. bond: to it; MPI_COMM_NULL if the plan has none. -ECHILD
 * with one line, and then nothing has changed. */
int cosched_worlds_spawn(const struct cosched_worlds *worlds, const struct cosched_plan *plan,
                         uint64_t generation, MPI_Comm *bond, char why[COSCHED_WHY_BYTES]);

/* Makes the union. Collective over the old ranks, while the new ones call cosched_worlds_join. The union
 * has its welcome. -ECHILD in all ranks if a new one cannot join, with its line; then nothing has
 * changed. */
int cosched_worlds_unite(struct cosched_worlds *worlds, MPI_Comm bond, struct cosched_union *one,
                         char why[COSCHED_WHY_BYTES]);

/* Joins the job, in a rank of its new world. spot: where it runs; NULL: it cannot join, and `why` says
 * the reason. Collective; -ECHILD as above. */
int cosched_worlds_join(struct cosched_worlds *worlds, const struct cosched_spot *spot,
                        struct cosched_union *one, char why[COSCHED_WHY_BYTES]);

/* Ends a change: the job has its next communicator, and worlds that end are disconnected. Collective
 * over the union. The union is over. */
void cosched_worlds_settle(struct cosched_worlds *worlds, struct cosched_union *one);

void cosched_welcome_free(struct cosched_welcome *welcome);

/* Frees the communicator and disconnects all worlds. Collective. */
void cosched_worlds_close(struct cosched_worlds *worlds);

/* Frees memory only. */
void cosched_worlds_free(struct cosched_worlds *worlds);

/* Broadcasts bytes of any number from rank 0. */
void cosched_worlds_bcast(MPI_Comm comm, void *data, uint64_t bytes);

#endif
