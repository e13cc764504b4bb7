/* Memory latency, after HPC Challenge's RandomAccess: updates of random places in a table of
   (at most) SIZE_BYTES. Work: updates. An update is an exclusive or, so the same sequence
   once more must bring the table back to what it was; of one process no error is allowed. */

#include "kernel.h"

enum { UPDATES = 1 << 16 };
static uint64_t *table;
static uint64_t mask;
static uint64_t random_now = 1, rounds;

static uint64_t next_random(uint64_t value)
{
    return (value << 1) ^ ((int64_t)value < 0 ? 7 : 0);
}

static double round_once(void)
{
    for (int update = 0; update < UPDATES; update++) {
        random_now = next_random(random_now);
        table[random_now & mask] ^= random_now;
    }
    rounds++;
    kernel_accesses(UPDATES);
    return UPDATES;
}

static const char *verify(void)
{
    uint64_t done = rounds;
    random_now = 1;
    for (uint64_t again = 0; again < done; again++)
        round_once();
    for (uint64_t place = 0; place <= mask; place++)
        if (table[place] != place)
            return "verification failed: the table is not what it was";
    return NULL;
}

int main(int argc, char **argv)
{
    struct kernel_arguments arguments = kernel_parse(argc, argv);
    uint64_t length = 1;
    while (2 * length * sizeof *table <= arguments.size)
        length *= 2;
    mask = length - 1;
    table = kernel_allocate("gups", length * sizeof *table);
    for (uint64_t place = 0; place < length; place++)
        table[place] = place;
    return kernel_main("gups", &arguments, round_once, verify);
}
