/*
 * messages.h - matched messages (MPI_Mprobe): MPI_Mrecv is not told which communicator a
 * message came from, so those without a status byte are remembered by their handle.
 */
#ifndef COSCHED_MESSAGES_H
#define COSCHED_MESSAGES_H

#include <stdbool.h>

#include "base/pmpi.h"

/* A message was matched in a communicator that carries no status byte. False: no memory. */
bool cosched_messages_plain(MPI_Message message);

/* Whether the message begins with a status byte. Forgets a message that does not: asked
 * once, by the call that receives it. */
bool cosched_messages_carry(MPI_Message message);

#endif
