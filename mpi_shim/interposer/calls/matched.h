/*
 * matched.h - handles matched messages (MPI_Mprobe) without a status byte.
 *
 * MPI_Mrecv has no communicator argument. So the shim records the handle of each matched message
 * whose communicator carries no status byte.
 */
#ifndef COSCHED_MATCHED_H
#define COSCHED_MATCHED_H

#include <stdbool.h>

#include "base/pmpi.h"

/* Records a message matched in a communicator that carries no status byte. False: no memory. */
bool cosched_matched_add_plain(MPI_Message message);

/* Whether the message begins with a status byte. Forgets a message that does not, so it is
 * called once, by the call that receives the message. */
bool cosched_matched_carry(MPI_Message message);

#endif
