/*
 * do.h - what the shim does in place of each call of the table: cosched_do_Send in place of
 * MPI_Send and MPI_Send_c, and so on. Called in active processes alone.
 */
#ifndef COSCHED_DO_H
#define COSCHED_DO_H

#include "base/pmpi.h"

#define COUNT cosched_count
#define CALL(name, parameters, arguments) int cosched_do_##name parameters;
#define COUNTED CALL
#include "base/calls.h"
#undef COUNTED
#undef CALL
#undef COUNT

#endif
