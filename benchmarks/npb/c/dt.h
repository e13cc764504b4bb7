#pragma once
#include <stdint.h>

/* A sample has four numbers; lengths count numbers. */

/* Fills a feature with pseudo-random samples after the four states, which change. */
void npb_dt_draw(int64_t length, int32_t *states, double *feature);

/* Stretches a feature to a greater length: each number is spread over its neighbours. */
void npb_dt_resample(int64_t length, const double *feature, int64_t wanted,
                     double *stretched);

/* Replaces each sample of `feature` but its first and last by the one of three neighbours in
 * `other` that resembles it most, times `weight`. */
void npb_dt_filter(int64_t length, double weight, double *feature, const double *other);

/* Divides the integer part of each number by `streams`, without a remainder. */
void npb_dt_divide(int64_t length, int32_t streams, double *feature);

/* The mean of the squares, added up in order. */
double npb_dt_check(int64_t length, const double *feature);
