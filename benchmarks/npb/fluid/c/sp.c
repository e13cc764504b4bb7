/* SP's solves of scalar pentadiagonal systems, one direction after the other, in the
 * variables that diagonalise its flux (NASA report RNR-94-007, chapter 3). Lines begin and
 * end at the boundary, where everything stays zero. */
#include "sp.h"

#include <math.h>

#include "box.h"

#define SYSTEMS 3 /* eigenvalues: the speed, thrice; plus and minus the speed of sound */
#define UPPER (2 * SYSTEMS)
#define HALF_ROOT 0.70710678118654752440

void npb_sp_sound(const struct npb_fluid_cell *cell, const double *derived, double *sound)
{
    const int32_t *n = cell->points;
    for (int32_t z = -1; z < n[2] + 1; z++)
        for (int32_t y = -1; y < n[1] + 1; y++)
            for (int32_t x = -1; x < n[0] + 1; x++) {
                ptrdiff_t at = npb_at(cell, x, y, z);
                const double *d = derived + DERIVED * at;
                sound[at] = sqrt(C1 * C2 * (d[ENERGY] - d[KINETIC]));
            }
}

void npb_sp_enter(const struct npb_fluid_cell *cell, const double *derived,
                  const double *sound, double *rhs)
{
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = npb_at(cell, x, y, z);
        const double *d = derived + DERIVED * at;
        double *r = rhs + VALUES * at, inverse = d[INVERSE], c = sound[at];
        double pressure = C2 / (c * c)
                          * (d[KINETIC] * r[0] - d[SPEED_X] * r[1] - d[SPEED_Y] * r[2]
                             - d[SPEED_Z] * r[3] + r[4]);
        double shift = HALF_ROOT * inverse * (d[SPEED_X] * r[0] - r[1]);
        double wave = HALF_ROOT * inverse * c * pressure;
        double along_y = inverse * (d[SPEED_Y] * r[0] - r[2]);
        r[1] = -inverse * (d[SPEED_Z] * r[0] - r[3]);
        r[0] -= pressure;
        r[2] = along_y;
        r[3] = wave - shift;
        r[4] = wave + shift;
    }
}

static void leave_x(double *r)
{
    double mean = 0.5 * (r[3] + r[4]), turned = HALF_ROOT * r[2];
    double first = r[0];
    r[0] = -r[1];
    r[1] = first;
    r[2] = HALF_ROOT * (r[3] - r[4]);
    r[3] = mean - turned;
    r[4] = mean + turned;
}

static void leave_y(double *r)
{
    double mean = 0.5 * (r[3] + r[4]), turned = HALF_ROOT * r[0];
    double second = r[1];
    r[0] = HALF_ROOT * (r[3] - r[4]);
    r[1] = -r[2];
    r[2] = second;
    r[3] = mean - turned;
    r[4] = mean + turned;
}

static void leave_z(double density, const double *d, double c, double *r)
{
    double wave = HALF_ROOT * density / c * (r[3] + r[4]);
    double mass = r[2] + wave, push = HALF_ROOT * density * (r[3] - r[4]);
    double first = density * r[0], second = density * r[1];
    r[0] = mass;
    r[1] = d[SPEED_X] * mass - second;
    r[2] = d[SPEED_Y] * mass + first;
    r[3] = d[SPEED_Z] * mass + push;
    r[4] = d[SPEED_Y] * first - d[SPEED_X] * second + d[KINETIC] * mass
           + c * c / C2 * wave + d[SPEED_Z] * push;
}

void npb_sp_leave(const struct npb_fluid_cell *cell, int32_t axis, const double *u,
                  const double *derived, const double *sound, double *rhs)
{
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = npb_at(cell, x, y, z);
        double *r = rhs + VALUES * at;
        if (axis == 0)
            leave_x(r);
        else if (axis == 1)
            leave_y(r);
        else
            leave_z(u[VALUES * at], derived + DERIVED * at, sound[at], r);
    }
}

/* The greatest of the viscous coefficients along `axis`. */
NPB_INLINE double viscosity(int axis, const double *d)
{
    double friction = C3C4 * d[INVERSE], least = npb_diffusion[axis];
    return least + fmax(4.0 / 3.0, C1C5) * friction;
}

/* A row of the matrix: two below the diagonal, the diagonal, two above. */
struct row {
    double far_lower, lower, centre, upper, far_upper;
};

/* The dissipation that is treated implicitly; its end points are one-sided. */
NPB_INLINE struct row dissipation(double weight, int32_t place, int32_t edge)
{
    struct row row = {weight, -4.0 * weight, 6.0 * weight, -4.0 * weight, weight};
    if (place == 1 || place == edge - 2)
        row.centre = 5.0 * weight;
    if (place == 1)
        row.lower = 0.0;
    if (place <= 2)
        row.far_lower = 0.0;
    if (place == edge - 2)
        row.upper = 0.0;
    if (place >= edge - 3)
        row.far_upper = 0.0;
    return row;
}

/* Eliminates what is below the diagonal of one row of one system, by the two rows before;
 * `values` right-hand sides from `r`. */
NPB_INLINE void eliminate(struct row row, const double *near, const double *far,
                          const double *r_near, const double *r_far, int values,
                          double *upper, double *r)
{
    double lower = row.lower - row.far_lower * far[0], centre, inverse;
    centre = row.centre - row.far_lower * far[1] - lower * near[0];
    inverse = 1.0 / centre;
    upper[0] = (row.upper - lower * near[1]) * inverse;
    upper[1] = row.far_upper * inverse;
    for (int m = 0; m < values; m++)
        r[m] = (r[m] - row.far_lower * r_far[m] - lower * r_near[m]) * inverse;
}

NPB_INLINE void eliminate_cell(int axis, const struct npb_fluid_cell *cell,
                               const double *derived, const double *sound, double *upper,
                               double *rhs)
{
    double width = cell->edge - 1, second = cell->dt * width * width;
    double first = 0.5 * cell->dt * width;
    ptrdiff_t stride = npb_stride(cell, axis);
    NPB_INSIDE(cell, x, y, z)
    {
        ptrdiff_t at = npb_at(cell, x, y, z);
        const double *d = derived + DERIVED * at;
        const double *below = d - DERIVED * stride, *above = d + DERIVED * stride;
        int32_t place = cell->first[axis] + (axis == 0 ? x : axis == 1 ? y : z);
        struct row row = dissipation(DISSIPATION * cell->dt, place, cell->edge);
        double *u = upper + UPPER * at, *r = rhs + VALUES * at;
        const double *u1 = u - UPPER * stride, *u2 = u1 - UPPER * stride;
        const double *r1 = r - VALUES * stride, *r2 = r1 - VALUES * stride;
        row.lower -= first * below[SPEED_X + axis] + second * viscosity(axis, below);
        row.centre += 1.0 + 2.0 * second * viscosity(axis, d);
        row.upper += first * above[SPEED_X + axis] - second * viscosity(axis, above);
        eliminate(row, u1, u2, r1, r2, 3, u, r);
        row.lower -= first * sound[at - stride];
        row.upper += first * sound[at + stride];
        eliminate(row, u1 + 2, u2 + 2, r1 + 3, r2 + 3, 1, u + 2, r + 3);
        row.lower += 2.0 * first * sound[at - stride];
        row.upper -= 2.0 * first * sound[at + stride];
        eliminate(row, u1 + 4, u2 + 4, r1 + 4, r2 + 4, 1, u + 4, r + 4);
    }
}

void npb_sp_eliminate(const struct npb_fluid_cell *cell, int32_t axis,
                      const double *derived, const double *sound, double *upper,
                      double *rhs)
{
    if (axis == 0)
        eliminate_cell(0, cell, derived, sound, upper, rhs);
    else if (axis == 1)
        eliminate_cell(1, cell, derived, sound, upper, rhs);
    else
        eliminate_cell(2, cell, derived, sound, upper, rhs);
}

void npb_sp_substitute(const struct npb_fluid_cell *cell, int32_t axis,
                       const double *upper, double *rhs)
{
    static const int system[VALUES] = {0, 0, 0, 1, 2};
    ptrdiff_t stride = VALUES * npb_stride(cell, axis);
    for (int32_t z = npb_end(cell, 2) - 1; z >= npb_begin(cell, 2); z--)
        for (int32_t y = npb_end(cell, 1) - 1; y >= npb_begin(cell, 1); y--)
            for (int32_t x = npb_end(cell, 0) - 1; x >= npb_begin(cell, 0); x--) {
                ptrdiff_t at = npb_at(cell, x, y, z);
                const double *u = upper + UPPER * at;
                double *r = rhs + VALUES * at;
                for (int m = 0; m < VALUES; m++) {
                    const double *elements = u + 2 * system[m];
                    r[m] -= elements[0] * r[m + stride] + elements[1] * r[m + 2 * stride];
                }
            }
}
