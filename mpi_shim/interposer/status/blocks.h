/*
 * blocks.h - memory for the copies that messages are sent from and received into.
 *
 * Large blocks are kept for the next message: malloc would hand them back to the kernel
 * each time, and the page faults of a fresh one cost more than the message.
 */
#ifndef COSCHED_BLOCKS_H
#define COSCHED_BLOCKS_H

#include <stddef.h>

/* At least `bytes`, aligned like malloc's; NULL when memory is out. */
void *cosched_blocks_take(size_t bytes);
void cosched_blocks_give(void *block);

#endif
