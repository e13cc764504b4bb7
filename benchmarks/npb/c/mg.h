#pragma once
#include <stdint.h>

/* A grid of doubles with a ghost layer all round; x runs fastest, then y, then z. The
 * edges include the ghosts. */
struct npb_mg_grid {
    int32_t x, y, z;
};

/* residual = right - A solution, in the interior. `right` may be `residual`. */
void npb_mg_residual(const struct npb_mg_grid *grid, const double *solution,
                     const double *right, double *residual);

/* solution += S residual: the smoother, by the weights of a point, its face neighbours and
 * its edge neighbours. */
void npb_mg_smooth(const struct npb_mg_grid *grid, const double *weights,
                   const double *residual, double *solution);

/* coarse = P fine: half weighting of the 27 points around. */
void npb_mg_restrict(const struct npb_mg_grid *fine_grid, const double *fine,
                     const struct npb_mg_grid *coarse_grid, double *coarse);

/* fine += Q coarse: trilinear interpolation. */
void npb_mg_prolong(const struct npb_mg_grid *coarse_grid, const double *coarse,
                    const struct npb_mg_grid *fine_grid, double *fine);

/* The sum of squares of the interior. */
double npb_mg_square(const struct npb_mg_grid *grid, const double *field);

/* Fills rows of `count` numbers each, `rows` of them, in lines of the whole problem that
 * are `row_leap` apart: the multiplier's power that leads from a row to the next. */
void npb_mg_draw(uint64_t seed, uint64_t row_leap, int32_t rows, int32_t count,
                 double *numbers);
