/* Arithmetic in registers, after the NAS benchmark EP: pairs of random numbers, and how many
   lie in the circle. Work: pairs. A round is always the same, so its count is known: it was
   computed by other means (tests/kernels). */

#include "kernel.h"

enum { PAIRS = 1 << 20 };
static const uint64_t IN_CIRCLE = 823573;
static uint64_t wrong_rounds;

static double round_once(void)
{
    /* Knuth's MMIX generator; its upper 32 bits. */
    uint64_t state = 271828183, inside = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double x = (double)(state >> 32) * 0x1p-31 - 1.0;
        state = state * 6364136223846793005u + 1442695040888963407u;
        double y = (double)(state >> 32) * 0x1p-31 - 1.0;
        inside += x * x + y * y <= 1.0;
    }
    wrong_rounds += inside != IN_CIRCLE;
    return PAIRS;
}

static const char *verify(void)
{
    return wrong_rounds ? "verification failed: a wrong count" : NULL;
}

int main(int argc, char **argv)
{
    struct kernel_arguments arguments = kernel_parse(argc, argv);
    return kernel_main("cpu", &arguments, round_once, verify);
}
