/*
 * do.h - declares the functions that serve the calls of the table in an active process:
 * cosched_do_Send serves MPI_Send and MPI_Send_c, and so on.
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
