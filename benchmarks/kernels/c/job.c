#include "job.h"

#include "kernel.h"

int kernel_job_open(const char *name)
{
    kernel_node_open(name);
    return kernel_node != NULL;
}

void kernel_job_begin(void)
{
    kernel_round_begin();
}

void kernel_job_streams(double bytes)
{
    kernel_streams(bytes);
}

void kernel_job_moves(double bytes)
{
    kernel_moves(bytes);
}

void kernel_job_end(void)
{
    kernel_round_end();
}
