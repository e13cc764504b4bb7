/*
 * together.h - makes the MPI calls that the shims of all ranks make together: they join and
 * agree (cosched/join.h), and rank 0 reports the nodes that do not coschedule the job
 * (cosched/roll.h). The rules are there; this file provides the library's calls.
 */
#ifndef COSCHED_TOGETHER_H
#define COSCHED_TOGETHER_H

#include <stdint.h>

/* After MPI_Init, collective: under COSCHED_STATUS=shadow every rank joins. */
void cosched_together_open(void);

/* The roll call, with this rank's presence (enum cosched_presence). */
void cosched_together_call_roll(uint32_t presence);

/* At the beginning of MPI_Finalize, collective. */
void cosched_together_close(void);

#endif
