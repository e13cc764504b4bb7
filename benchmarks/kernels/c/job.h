/* The emulated node (node.h) for jobs in Python. Without one these functions do nothing. */

#pragma once

/* Maps the node of KERNEL_NODE. Returns whether there is one; exits if it is none. */
int kernel_job_open(const char *name);

/* A round begins. */
void kernel_job_begin(void);

/* The round reads or writes so many bytes of memory ahead. */
void kernel_job_streams(double bytes);

/* The round moves so many bytes to or from the disk, by one request. */
void kernel_job_moves(double bytes);

/* Waits for the end of the round. */
void kernel_job_end(void);
