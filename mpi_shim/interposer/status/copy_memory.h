/*
 * copy_memory.h - keeps memory for the copies that messages are sent from and received into.
 *
 * Large blocks are kept for the next message. malloc would return them to the kernel each
 * time, and the page faults of a fresh block cost more than the message.
 */
#ifndef COSCHED_COPY_MEMORY_H
#define COSCHED_COPY_MEMORY_H

#include <stddef.h>

/* Returns a block of at least `bytes`, aligned like malloc's. NULL: no memory. */
void *cosched_copy_memory_take(size_t bytes);

/* Gives a block back. NULL is allowed. */
void cosched_copy_memory_give(void *block);

#endif
