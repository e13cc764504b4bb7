/* The geometry of a cell, and the constants of the equations that LU, SP and BT solve
 * (NASA report RNR-94-007, chapter 3). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "fluid.h"

#define GHOSTS 2
#define VALUES 5  /* density, three momenta, energy */
#define DERIVED 6 /* see npb_fluid_derive */

enum derived { INVERSE, SPEED_X, SPEED_Y, SPEED_Z, ENERGY, KINETIC };

/* The report's c1 to c5, products of them as they occur. */
#define C1 1.4
#define C2 0.4
#define C3C4 0.1
#define C1C5 (1.4 * 1.4)
#define C1345 (C1C5 * C3C4)
#define DISSIPATION 0.25

/* Second-order dissipation along x, y and z. */
static const double npb_diffusion[3] = {0.75, 0.75, 1.0};

static inline ptrdiff_t npb_at(const struct npb_fluid_cell *cell, int32_t x, int32_t y,
                               int32_t z)
{
    ptrdiff_t wide = cell->points[0] + 2 * GHOSTS, deep = cell->points[1] + 2 * GHOSTS;
    return ((z + GHOSTS) * deep + y + GHOSTS) * wide + x + GHOSTS;
}

/* How far apart in memory neighbours along an axis are, in points. */
static inline ptrdiff_t npb_stride(const struct npb_fluid_cell *cell, int axis)
{
    ptrdiff_t stride = 1;
    for (int a = 0; a < axis; a++)
        stride *= cell->points[a] + 2 * GHOSTS;
    return stride;
}

/* The points of the cell that are not boundary: from begin to before end. */
static inline int32_t npb_begin(const struct npb_fluid_cell *cell, int axis)
{
    return cell->first[axis] == 0;
}

static inline int32_t npb_end(const struct npb_fluid_cell *cell, int axis)
{
    int32_t end = cell->points[axis];
    return cell->first[axis] + end == cell->edge ? end - 1 : end;
}

/* Runs the statement for every inner x, y, z. */
#define NPB_INSIDE(cell, x, y, z)                                                      \
    for (int32_t z = npb_begin(cell, 2); z < npb_end(cell, 2); z++)                    \
        for (int32_t y = npb_begin(cell, 1); y < npb_end(cell, 1); y++)                \
            for (int32_t x = npb_begin(cell, 0); x < npb_end(cell, 0); x++)

/* Compiled once for each axis, so that it is a constant in there. */
#define NPB_INLINE static inline __attribute__((always_inline))
