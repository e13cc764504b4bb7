/* BT's solves of 5 x 5 block-tridiagonal systems, one direction after the other (NASA
 * report RNR-94-007, chapter 3). Lines begin and end at the boundary, where the right-hand
 * side and the blocks stay zero, so that no line needs a special first or last point. */
#include "bt.h"

#include <string.h>

#include "box.h"

#define BLOCK (VALUES * VALUES)
#define WIDE (VALUES + 1) /* a block and a right-hand side beside it */

/* block = flux F + viscous N + extra, where F and N are the Jacobians of the convective and
 * the viscous flux along `axis` at the point that `d` is derived from; rows are apart by
 * `width`. */
NPB_INLINE void jacobian(int axis, double flux, double viscous, double extra,
                         const double *d, double *block, int width)
{
    const double *speed = d + SPEED_X;
    double inward = speed[axis], kinetic = d[KINETIC], energy = d[ENERGY];
    double *last = block + 4 * width, rest = 0.0;
    int normal = 1 + axis;
    for (int m = 0; m < VALUES; m++)
        for (int n = 0; n < VALUES; n++)
            block[m * width + n] = m == n ? extra : 0.0;
    for (int m = 0; m < 3; m++) {
        double friction = C3C4 * (m == axis ? 4.0 / 3.0 : 1.0);
        double drag = viscous * friction * d[INVERSE];
        double heat = viscous * (friction - C1345) * d[INVERSE];
        double *row = block + (1 + m) * width;
        row[0] -= flux * speed[m] * inward + drag * speed[m];
        row[1 + m] += flux * inward + drag;
        row[normal] += flux * speed[m];
        last[1 + m] += heat * speed[m] - flux * C2 * speed[m] * inward;
        rest += heat * speed[m] * speed[m];
    }
    block[normal] += flux;
    block[normal * width] += flux * C2 * kinetic;
    for (int m = 0; m < 3; m++)
        block[normal * width + 1 + m] -= flux * C2 * speed[m];
    block[normal * width + 4] += flux * C2;
    last[0] += flux * (2.0 * C2 * kinetic - C1 * energy) * inward - rest
               - viscous * C1345 * d[INVERSE] * energy;
    last[normal] += flux * (C1 * energy - C2 * kinetic);
    last[4] += flux * C1 * inward + viscous * C1345 * d[INVERSE];
}

/* Turns [diagonal | upper | rhs] into [1 | diagonal^-1 upper | diagonal^-1 rhs]. */
NPB_INLINE void reduce(double diagonal[VALUES][WIDE], double right[VALUES][WIDE])
{
    for (int p = 0; p < VALUES; p++) {
        double pivot = 1.0 / diagonal[p][p];
        for (int n = p + 1; n < VALUES; n++)
            diagonal[p][n] *= pivot;
        for (int n = 0; n < WIDE; n++)
            right[p][n] *= pivot;
        for (int m = 0; m < VALUES; m++) {
            double factor = diagonal[m][p];
            if (m == p)
                continue;
            for (int n = p + 1; n < VALUES; n++)
                diagonal[m][n] -= factor * diagonal[p][n];
            for (int n = 0; n < WIDE; n++)
                right[m][n] -= factor * right[p][n];
        }
    }
}

NPB_INLINE void eliminate(int axis, const struct npb_fluid_cell *cell, ptrdiff_t stride,
                          const double *d, double *upper, double *rhs)
{
    double width = cell->edge - 1, second = cell->dt * width * width;
    double flux = 0.5 * cell->dt * width, diffusion = second * npb_diffusion[axis];
    double lower[VALUES][WIDE], diagonal[VALUES][WIDE], right[VALUES][WIDE];
    const double *before = upper - BLOCK * stride, *rhs_before = rhs - VALUES * stride;
    jacobian(axis, -flux, -second, -diffusion, d - DERIVED * stride, lower[0], WIDE);
    jacobian(axis, 0.0, 2.0 * second, 1.0 + 2.0 * diffusion, d, diagonal[0], WIDE);
    jacobian(axis, flux, -second, -diffusion, d + DERIVED * stride, right[0], WIDE);
    for (int m = 0; m < VALUES; m++) {
        double rest = rhs[m];
        for (int k = 0; k < VALUES; k++) {
            double factor = lower[m][k];
            for (int n = 0; n < VALUES; n++)
                diagonal[m][n] -= factor * before[VALUES * k + n];
            rest -= factor * rhs_before[k];
        }
        right[m][VALUES] = rest;
    }
    reduce(diagonal, right);
    for (int m = 0; m < VALUES; m++) {
        memcpy(upper + VALUES * m, right[m], VALUES * sizeof(double));
        rhs[m] = right[m][VALUES];
    }
}

/* x is innermost whatever the axis, so that memory is read in order. */
NPB_INLINE void eliminate_cell(int axis, const struct npb_fluid_cell *cell,
                               const double *derived, double *upper, double *rhs)
{
    ptrdiff_t stride = npb_stride(cell, axis);
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = npb_at(cell, x, y, z);
        eliminate(axis, cell, stride, derived + DERIVED * at, upper + BLOCK * at,
                  rhs + VALUES * at);
    }
}

void npb_bt_eliminate(const struct npb_fluid_cell *cell, int32_t axis,
                      const double *derived, double *upper, double *rhs)
{
    if (axis == 0)
        eliminate_cell(0, cell, derived, upper, rhs);
    else if (axis == 1)
        eliminate_cell(1, cell, derived, upper, rhs);
    else
        eliminate_cell(2, cell, derived, upper, rhs);
}

void npb_bt_substitute(const struct npb_fluid_cell *cell, int32_t axis,
                       const double *upper, double *rhs)
{
    ptrdiff_t stride = VALUES * npb_stride(cell, axis);
    for (int32_t z = npb_end(cell, 2) - 1; z >= npb_begin(cell, 2); z--)
        for (int32_t y = npb_end(cell, 1) - 1; y >= npb_begin(cell, 1); y--)
            for (int32_t x = npb_end(cell, 0) - 1; x >= npb_begin(cell, 0); x--) {
                ptrdiff_t at = npb_at(cell, x, y, z);
                const double *block = upper + BLOCK * at;
                double *value = rhs + VALUES * at;
                const double *next = value + stride;
                for (int m = 0; m < VALUES; m++)
                    for (int n = 0; n < VALUES; n++)
                        value[m] -= block[VALUES * m + n] * next[n];
            }
}
