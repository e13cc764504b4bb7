/* FT's one-dimensional transforms (NASA report RNR-94-007, section 2.2): Stockham's
 * algorithm on sixteen lines at a time. The lines are copied out of the array. Each step of a
 * butterfly is then a loop over neighbours in memory, and powers of two as strides do no harm. */
#include "ft.h"

#include <string.h>

#include "lcg.h"

#define LANES 16
#define LONGEST 512

struct lines {
    double re[LONGEST][LANES];
    double im[LONGEST][LANES];
};

void npb_ft_draw(uint64_t seed, int64_t count, double *numbers)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = npb_lcg_next(&state);
}

/* One step: `groups` pairs of runs of `run` points become runs twice as long. */
static void step(const struct lines *restrict from, struct lines *restrict to,
                 int32_t groups, int32_t run, const double *roots)
{
    for (int32_t group = 0; group < groups; group++) {
        double root_re = roots[2 * group * run], root_im = roots[2 * group * run + 1];
        for (int32_t k = 0; k < run; k++) {
            int32_t a = group * run + k, b = a + groups * run;
            int32_t c = 2 * group * run + k, d = c + run;
            for (int lane = 0; lane < LANES; lane++) {
                double re = from->re[a][lane] - from->re[b][lane];
                double im = from->im[a][lane] - from->im[b][lane];
                to->re[c][lane] = from->re[a][lane] + from->re[b][lane];
                to->im[c][lane] = from->im[a][lane] + from->im[b][lane];
                to->re[d][lane] = root_re * re - root_im * im;
                to->im[d][lane] = root_re * im + root_im * re;
            }
        }
    }
}

/* Transforms the lines in `a`, with `b` as scratch; says which of the two holds them. */
static struct lines *transform(int32_t length, const double *roots, struct lines *a,
                               struct lines *b)
{
    for (int32_t run = 1; run < length; run *= 2) {
        struct lines *made = b;
        step(a, b, length / 2 / run, run, roots);
        b = a;
        a = made;
    }
    return a;
}

/* Up to sixteen lines: point p of line l is at data + 2 (p * point + l * line). */
static void block(int32_t length, int32_t lines, int64_t point, int64_t line,
                  const double *roots, double *data)
{
    struct lines a, b;
    const struct lines *done;
    if (lines < LANES)
        memset(&a, 0, sizeof a);
    for (int32_t p = 0; p < length; p++) {
        for (int32_t l = 0; l < lines; l++) {
            const double *from = data + 2 * (p * point + l * line);
            a.re[p][l] = from[0];
            a.im[p][l] = from[1];
        }
    }
    done = transform(length, roots, &a, &b);
    for (int32_t p = 0; p < length; p++) {
        for (int32_t l = 0; l < lines; l++) {
            double *to = data + 2 * (p * point + l * line);
            to[0] = done->re[p][l];
            to[1] = done->im[p][l];
        }
    }
}

static int32_t at_most(int64_t left)
{
    return left < LANES ? (int32_t)left : LANES;
}

void npb_ft_transform(int64_t outer, int32_t length, int64_t inner, const double *roots,
                      double *data)
{
    if (inner == 1) {
        for (int64_t line = 0; line < outer; line += LANES)
            block(length, at_most(outer - line), 1, length, roots,
                  data + 2 * line * length);
        return;
    }
    for (int64_t plane = 0; plane < outer; plane++)
        for (int64_t line = 0; line < inner; line += LANES)
            block(length, at_most(inner - line), inner, 1, roots,
                  data + 2 * (plane * length * inner + line));
}

void npb_ft_evolve(int64_t count, const double *factors, double *spectrum,
                   double *evolved)
{
    for (int64_t i = 0; i < count; i++) {
        spectrum[2 * i] *= factors[i];
        spectrum[2 * i + 1] *= factors[i];
        evolved[2 * i] = spectrum[2 * i];
        evolved[2 * i + 1] = spectrum[2 * i + 1];
    }
}
