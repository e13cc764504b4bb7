/* Memory bandwidth, after McCalpin's STREAM: copy, scale, add, triad over three arrays, which
   share SIZE_BYTES. Work: bytes moved. A round is one of the four over the whole arrays. The
   result is that of the same arithmetic on one number. */

#include "kernel.h"

#include <math.h>

static double *a, *b, *c;
static size_t length;
static unsigned step;
static double one_a = 1.0, one_b = 2.0, one_c = 0.0;
static const double SCALE = 0.42;

static double move(void)
{
    switch (step++ % 4) {
    case 0:
        for (size_t i = 0; i < length; i++)
            c[i] = a[i];
        one_c = one_a;
        return 16.0 * (double)length;
    case 1:
        for (size_t i = 0; i < length; i++)
            b[i] = SCALE * c[i];
        one_b = SCALE * one_c;
        return 16.0 * (double)length;
    case 2:
        for (size_t i = 0; i < length; i++)
            c[i] = a[i] + b[i];
        one_c = one_a + one_b;
        return 24.0 * (double)length;
    default:
        for (size_t i = 0; i < length; i++)
            a[i] = b[i] + SCALE * c[i];
        one_a = one_b + SCALE * one_c;
        return 24.0 * (double)length;
    }
}

static double round_once(void)
{
    const double bytes = move();
    kernel_streams(bytes);
    return bytes;
}

static int differs(const double *array, double one)
{
    for (size_t i = 0; i < length; i++)
        if (!(fabs(array[i] - one) <= 1e-12 * fabs(one)))
            return 1;
    return 0;
}

static const char *verify(void)
{
    if (differs(a, one_a) || differs(b, one_b) || differs(c, one_c))
        return "verification failed: an array is not what the arithmetic says";
    return NULL;
}

int main(int argc, char **argv)
{
    struct kernel_arguments arguments = kernel_parse(argc, argv);
    length = arguments.size / (3 * sizeof *a);
    a = kernel_allocate("stream", length * sizeof *a);
    b = kernel_allocate("stream", length * sizeof *b);
    c = kernel_allocate("stream", length * sizeof *c);
    for (size_t i = 0; i < length; i++) {
        a[i] = one_a;
        b[i] = one_b;
        c[i] = one_c;
    }
    return kernel_main("stream", &arguments, round_once, verify);
}
