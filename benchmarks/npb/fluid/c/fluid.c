/* The discrete Navier-Stokes equations of LU, SP and BT (NASA report RNR-94-007, chapter 3):
 * central differences and a fourth-order dissipation that is one-sided at the boundary.
 * The forcing is what makes the exact solution, a polynomial, solve them. */
#include "fluid.h"

#include "box.h"

/* The exact solution: 1, then x, y, z to the first power, the second, third and fourth. */
static const double polynomial[VALUES][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

static void exact(const double place[3], double value[VALUES])
{
    for (int m = 0; m < VALUES; m++) {
        value[m] = polynomial[m][0];
        for (int axis = 0; axis < 3; axis++) {
            double p = place[axis];
            const double *c = polynomial[m] + 1 + axis;
            value[m] += p * (c[0] + p * (c[3] + p * (c[6] + p * c[9])));
        }
    }
}

static void locate(const struct npb_fluid_cell *cell, int32_t x, int32_t y, int32_t z,
                   double place[3])
{
    double width = cell->edge - 1;
    place[0] = (cell->first[0] + x) / width;
    place[1] = (cell->first[1] + y) / width;
    place[2] = (cell->first[2] + z) / width;
}

void npb_fluid_exact(const struct npb_fluid_cell *cell, double *u)
{
    const int32_t *n = cell->points;
    for (int32_t z = -GHOSTS; z < n[2] + GHOSTS; z++)
        for (int32_t y = -GHOSTS; y < n[1] + GHOSTS; y++)
            for (int32_t x = -GHOSTS; x < n[0] + GHOSTS; x++) {
                double place[3];
                locate(cell, x, y, z, place);
                exact(place, u + VALUES * npb_at(cell, x, y, z));
            }
}

/* Between the exact values on the six faces, by transfinite interpolation. */
static void blend(const double place[3], double value[VALUES])
{
    double across[3][VALUES];
    for (int axis = 0; axis < 3; axis++) {
        double low[VALUES], high[VALUES], face[3] = {place[0], place[1], place[2]};
        face[axis] = 0.0;
        exact(face, low);
        face[axis] = 1.0;
        exact(face, high);
        for (int m = 0; m < VALUES; m++)
            across[axis][m] = (1.0 - place[axis]) * low[m] + place[axis] * high[m];
    }
    for (int m = 0; m < VALUES; m++) {
        double a = across[0][m], b = across[1][m], c = across[2][m];
        value[m] = a + b + c - a * b - b * c - c * a + a * b * c;
    }
}

void npb_fluid_begin(const struct npb_fluid_cell *cell, double *u)
{
    npb_fluid_exact(cell, u);
    NPB_INSIDE(cell, x, y, z)
    {
        double place[3];
        locate(cell, x, y, z, place);
        blend(place, u + VALUES * npb_at(cell, x, y, z));
    }
}

void npb_fluid_derive(const struct npb_fluid_cell *cell, const double *u, double *derived)
{
    const int32_t *n = cell->points;
    for (int32_t z = -1; z < n[2] + 1; z++)
        for (int32_t y = -1; y < n[1] + 1; y++)
            for (int32_t x = -1; x < n[0] + 1; x++) {
                ptrdiff_t at = npb_at(cell, x, y, z);
                const double *from = u + VALUES * at;
                double *to = derived + DERIVED * at, inverse = 1.0 / from[0];
                double a = from[1] * inverse, b = from[2] * inverse, c = from[3] * inverse;
                to[INVERSE] = inverse;
                to[SPEED_X] = a;
                to[SPEED_Y] = b;
                to[SPEED_Z] = c;
                to[ENERGY] = from[4] * inverse;
                to[KINETIC] = 0.5 * (a * a + b * b + c * c);
            }
}

/* Fourth differences; where the boundary is too near, what would lie beyond is left out. */
NPB_INLINE void dissipate(const double *u, ptrdiff_t step, int32_t place, int32_t edge,
                          double *sum)
{
    const double *down = u - step, *up = u + step;
    if (place > 2 && place < edge - 3) {
        const double *far_down = down - step, *far_up = up + step;
        for (int m = 0; m < VALUES; m++)
            sum[m] -= DISSIPATION
                      * (far_down[m] - 4.0 * (down[m] + up[m]) + 6.0 * u[m] + far_up[m]);
        return;
    }
    for (int m = 0; m < VALUES; m++) {
        double centre = place == 1 || place == edge - 2 ? 5.0 : 6.0;
        double fourth = centre * u[m];
        if (place > 1)
            fourth -= 4.0 * down[m];
        if (place > 2)
            fourth += down[m - step];
        if (place < edge - 2)
            fourth -= 4.0 * up[m];
        if (place < edge - 3)
            fourth += up[m + step];
        sum[m] -= DISSIPATION * fourth;
    }
}

/* Adds to `sum` what the neighbours along one axis contribute at a point. */
NPB_INLINE void along(const struct npb_fluid_cell *cell, int axis, const double *u,
                      const double *derived, ptrdiff_t stride, int32_t place, double *sum)
{
    double width = cell->edge - 1, second = width * width, first = 0.5 * width;
    double viscous = C3C4 * second, diffusion = npb_diffusion[axis] * second;
    const double *up = u + VALUES * stride, *down = u - VALUES * stride;
    const double *d0 = derived;
    const double *d1 = derived + DERIVED * stride, *d2 = derived - DERIVED * stride;
    double speed = d0[SPEED_X + axis], speed_up = d1[SPEED_X + axis];
    double speed_down = d2[SPEED_X + axis];
    double square_up = d1[KINETIC] * up[0], square_down = d2[KINETIC] * down[0];
    for (int m = 0; m < VALUES; m++)
        sum[m] += diffusion * (up[m] - 2.0 * u[m] + down[m]);
    sum[0] -= first * (up[1 + axis] - down[1 + axis]);
    for (int m = 1; m < 4; m++) {
        double bend = d1[m] - 2.0 * d0[m] + d2[m];
        sum[m] += (m == 1 + axis ? 4.0 / 3.0 : 1.0) * viscous * bend
                  - first * (up[m] * speed_up - down[m] * speed_down);
    }
    sum[1 + axis] -= first * C2 * (up[4] - square_up - down[4] + square_down);
    sum[4] += viscous
                  * ((1.0 - C1C5) * (d1[KINETIC] - 2.0 * d0[KINETIC] + d2[KINETIC])
                     + (speed_up * speed_up - 2.0 * speed * speed + speed_down * speed_down)
                           / 6.0
                     + C1C5 * (d1[ENERGY] - 2.0 * d0[ENERGY] + d2[ENERGY]))
              - first
                    * ((C1 * up[4] - C2 * square_up) * speed_up
                       - (C1 * down[4] - C2 * square_down) * speed_down);
    dissipate(u, VALUES * stride, place, cell->edge, sum);
}

void npb_fluid_rhs(const struct npb_fluid_cell *cell, double scale, const double *u,
                   const double *derived, const double *forcing, double *rhs)
{
    ptrdiff_t stride_y = npb_stride(cell, 1), stride_z = npb_stride(cell, 2);
    const int32_t *first = cell->first;
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = npb_at(cell, x, y, z);
        const double *v = u + VALUES * at, *d = derived + DERIVED * at;
        double sum[VALUES];
        for (int m = 0; m < VALUES; m++)
            sum[m] = forcing[VALUES * at + m];
        along(cell, 0, v, d, 1, first[0] + x, sum);
        along(cell, 1, v, d, stride_y, first[1] + y, sum);
        along(cell, 2, v, d, stride_z, first[2] + z, sum);
        for (int m = 0; m < VALUES; m++)
            rhs[VALUES * at + m] = scale * sum[m];
    }
}

void npb_fluid_add(const struct npb_fluid_cell *cell, double factor, const double *rhs,
                   double *u)
{
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = VALUES * npb_at(cell, x, y, z);
        for (int m = 0; m < VALUES; m++)
            u[at + m] += factor * rhs[at + m];
    }
}

void npb_fluid_square(const struct npb_fluid_cell *cell, const double *field, double *sums)
{
    NPB_INSIDE(cell, x, y, z)
    {
        const double *value = field + VALUES * npb_at(cell, x, y, z);
        for (int m = 0; m < VALUES; m++)
            sums[m] += value[m] * value[m];
    }
}

void npb_fluid_error(const struct npb_fluid_cell *cell, const double *u, double *sums)
{
    const int32_t *n = cell->points;
    for (int32_t z = 0; z < n[2]; z++)
        for (int32_t y = 0; y < n[1]; y++)
            for (int32_t x = 0; x < n[0]; x++) {
                const double *value = u + VALUES * npb_at(cell, x, y, z);
                double place[3], right[VALUES];
                locate(cell, x, y, z, place);
                exact(place, right);
                for (int m = 0; m < VALUES; m++)
                    sums[m] += (value[m] - right[m]) * (value[m] - right[m]);
            }
}
