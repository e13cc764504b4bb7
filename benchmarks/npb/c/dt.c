/* DT's work at the nodes of its graph. Its checksums are integers, made by truncation, so the
 * order of additions is the published program's. */
#include "dt.h"

#include <string.h>

enum { VALUES = 4 };

void npb_dt_draw(int64_t length, int32_t *states, double *feature)
{
    static const int32_t factor[VALUES] = {2, 2, 2, 5};
    static const int32_t modulus[VALUES] = {421, 419, 1427, 3527};
    for (int64_t i = 0; i < length; i += VALUES)
        for (int v = 0; v < VALUES; v++) {
            states[v] = states[v] * factor[v] % modulus[v];
            feature[i + v] = states[v];
        }
}

void npb_dt_resample(int64_t length, const double *feature, int64_t wanted,
                     double *stretched)
{
    /* An integer, also where the quotient of the lengths is none. */
    const double scale = (double)(wanted / length);
    memset(stretched, 0, (size_t)wanted * sizeof *stretched);
    for (int64_t i = 1; i < length - 1; i++) {
        const int64_t low = (int64_t)(0.5 * (double)(2 * i - 1) * scale);
        const int64_t high = (int64_t)(0.5 * (double)(2 * i + 1) * scale);
        const double each = feature[i] / (double)(high - low + 1);
        for (int64_t j = low; j <= high; j++)
            stretched[j] += each;
    }
    stretched[0] = feature[0];
    stretched[wanted - 1] = feature[length - 1];
}

static double distance(const double *a, const double *b)
{
    double sum = 0.0;
    for (int v = 0; v < VALUES; v++)
        sum += (a[v] - b[v]) * (a[v] - b[v]);
    return sum;
}

void npb_dt_filter(int64_t length, double weight, double *feature, const double *other)
{
    for (int64_t i = VALUES; i < length - VALUES; i += VALUES) {
        const int64_t up = i + VALUES, down = i - VALUES;
        double least = distance(feature + i, other + i);
        const double above = distance(feature + up, other + up);
        const double *nearest = other + i;
        if (above < least) {
            nearest = other + up;
            least = above;
        }
        if (distance(feature + down, other + down) < least)
            nearest = other + down;
        for (int v = 0; v < VALUES; v++)
            feature[i + v] = weight * nearest[v];
    }
}

void npb_dt_divide(int64_t length, int32_t streams, double *feature)
{
    for (int64_t i = 0; i < length; i++)
        feature[i] = (double)((int32_t)feature[i] / streams);
}

double npb_dt_check(int64_t length, const double *feature)
{
    double sum = 0.0;
    for (int64_t i = 0; i < length; i++)
        sum += feature[i] * feature[i] / (double)length;
    return sum;
}
