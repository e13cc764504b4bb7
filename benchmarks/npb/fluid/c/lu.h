#pragma once
#include <stdint.h>

#include "fluid.h"

/* Solves with the lower triangle on plane z of the cell: correction = L^-1 correction. It
 * needs the plane below and the first ghosts to the west and south. */
void npb_lu_lower(const struct npb_fluid_cell *cell, int32_t z, const double *derived,
                  double *correction);

/* The same with the upper triangle, from the plane above and the ghosts to the east and
 * north. */
void npb_lu_upper(const struct npb_fluid_cell *cell, int32_t z, const double *derived,
                  double *correction);
