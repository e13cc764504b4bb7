#pragma once
#include <stdint.h>

#include "fluid.h"

/* Forward elimination of the block-tridiagonal systems along `axis`, over the whole cell,
 * from the ghost plane below it. upper[z][y][x][25] receives the blocks above the
 * diagonal, rhs what remains. */
void npb_bt_eliminate(const struct npb_fluid_cell *cell, int32_t axis,
                      const double *derived, double *upper, double *rhs);

/* Back substitution, from the ghost plane above the cell. */
void npb_bt_substitute(const struct npb_fluid_cell *cell, int32_t axis,
                       const double *upper, double *rhs);
