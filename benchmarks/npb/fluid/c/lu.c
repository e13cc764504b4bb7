/* LU's triangular solves (NASA report RNR-94-007, chapter 3). The blocks beside the diagonal
 * are flux Jacobians; they are applied to a vector without being written out. The diagonal
 * block itself is lower triangular on a cubic grid, so that it is solved by substitution. */
#include "lu.h"

#include "box.h"

#define RELAXATION 1.2

/* sum += (flux F + viscous N + extra) x, where F and N are the Jacobians of the convective
 * and the viscous flux along `axis` at the point that `d` is derived from. */
NPB_INLINE void apply(int axis, double flux, double viscous, double extra, const double *d,
                      const double *x, double *sum)
{
    const double *speed = d + SPEED_X;
    double inward = speed[axis], kinetic = d[KINETIC], energy = d[ENERGY];
    double advected = x[1 + axis] - inward * x[0], work = 0.0, shear = 0.0;
    for (int m = 0; m < 3; m++) {
        double friction = C3C4 * (m == axis ? 4.0 / 3.0 : 1.0);
        double drift = d[INVERSE] * (x[1 + m] - speed[m] * x[0]);
        work += speed[m] * x[1 + m];
        shear += (friction - C1345) * speed[m] * drift;
        sum[1 + m] += flux * (inward * x[1 + m] + speed[m] * advected)
                      + viscous * friction * drift + extra * x[1 + m];
    }
    sum[0] += flux * x[1 + axis] + extra * x[0];
    sum[1 + axis] += flux * C2 * (kinetic * x[0] - work + x[4]);
    sum[4] += flux
                  * (inward
                         * ((2.0 * C2 * kinetic - C1 * energy) * x[0] - C2 * work
                            + C1 * x[4])
                     + (C1 * energy - C2 * kinetic) * x[1 + axis])
              + viscous * (shear + C1345 * d[INVERSE] * (x[4] - energy * x[0]))
              + extra * x[4];
}

/* The coefficients that all points have in common. */
struct weights {
    double flux[3], viscous[3], extra[3];
    double diagonal; /* in all diagonal elements */
    double friction; /* friction of momenta in all three directions */
    double heat;     /* heat conduction */
};

static struct weights weigh(const struct npb_fluid_cell *cell, double direction)
{
    double width = cell->edge - 1, second = cell->dt * width * width;
    struct weights found = {.diagonal = 1.0};
    for (int axis = 0; axis < 3; axis++) {
        found.flux[axis] = direction * cell->dt * 0.5 * width;
        found.viscous[axis] = -second;
        found.extra[axis] = -second * npb_diffusion[axis];
        found.diagonal += 2.0 * second * npb_diffusion[axis];
        found.friction += 2.0 * second * C3C4;
        found.heat += 2.0 * second * C1345;
    }
    found.friction += 2.0 * second * C3C4 / 3.0; /* each momentum is normal once */
    return found;
}

/* x = D^-1 x. */
NPB_INLINE void solve(const struct weights *w, const double *d, double *x)
{
    double friction = w->friction * d[INVERSE], heat = w->heat * d[INVERSE];
    double inner = 1.0 / (w->diagonal + friction), rest;
    x[0] /= w->diagonal;
    rest = x[4] + (2.0 * (friction - heat) * d[KINETIC] + heat * d[ENERGY]) * x[0];
    for (int m = 0; m < 3; m++) {
        double speed = d[SPEED_X + m];
        x[1 + m] = (x[1 + m] + friction * speed * x[0]) * inner;
        rest -= (friction - heat) * speed * x[1 + m];
    }
    x[4] = rest / (w->diagonal + heat);
}

void npb_lu_lower(const struct npb_fluid_cell *cell, int32_t z, const double *derived,
                  double *correction)
{
    struct weights w = weigh(cell, -1.0);
    ptrdiff_t stride_y = npb_stride(cell, 1), stride_z = npb_stride(cell, 2);
    for (int32_t y = npb_begin(cell, 1); y < npb_end(cell, 1); y++) {
        for (int32_t x = npb_begin(cell, 0); x < npb_end(cell, 0); x++) {
            ptrdiff_t at = npb_at(cell, x, y, z);
            double *v = correction + VALUES * at, sum[VALUES] = {0.0};
            const double *d = derived + DERIVED * at;
            apply(2, w.flux[2], w.viscous[2], w.extra[2], d - DERIVED * stride_z,
                  v - VALUES * stride_z, sum);
            apply(1, w.flux[1], w.viscous[1], w.extra[1], d - DERIVED * stride_y,
                  v - VALUES * stride_y, sum);
            apply(0, w.flux[0], w.viscous[0], w.extra[0], d - DERIVED, v - VALUES, sum);
            for (int m = 0; m < VALUES; m++)
                v[m] -= RELAXATION * sum[m];
            solve(&w, d, v);
        }
    }
}

void npb_lu_upper(const struct npb_fluid_cell *cell, int32_t z, const double *derived,
                  double *correction)
{
    struct weights w = weigh(cell, 1.0);
    ptrdiff_t stride_y = npb_stride(cell, 1), stride_z = npb_stride(cell, 2);
    for (int32_t y = npb_end(cell, 1) - 1; y >= npb_begin(cell, 1); y--) {
        for (int32_t x = npb_end(cell, 0) - 1; x >= npb_begin(cell, 0); x--) {
            ptrdiff_t at = npb_at(cell, x, y, z);
            double *v = correction + VALUES * at, sum[VALUES] = {0.0};
            const double *d = derived + DERIVED * at;
            apply(2, w.flux[2], w.viscous[2], w.extra[2], d + DERIVED * stride_z,
                  v + VALUES * stride_z, sum);
            apply(1, w.flux[1], w.viscous[1], w.extra[1], d + DERIVED * stride_y,
                  v + VALUES * stride_y, sum);
            apply(0, w.flux[0], w.viscous[0], w.extra[0], d + DERIVED, v + VALUES, sum);
            solve(&w, d, sum);
            for (int m = 0; m < VALUES; m++)
                v[m] -= RELAXATION * sum[m];
        }
    }
}
