#pragma once
#include <stdint.h>

#include "fluid.h"

/* The speed of sound on all points and first ghosts. */
void npb_sp_sound(const struct npb_fluid_cell *cell, const double *derived, double *sound);

/* rhs into the eigenvectors of the x direction. */
void npb_sp_enter(const struct npb_fluid_cell *cell, const double *derived,
                  const double *sound, double *rhs);

/* From the eigenvectors of `axis` into those of the next; of z, back to u's variables. */
void npb_sp_leave(const struct npb_fluid_cell *cell, int32_t axis, const double *u,
                  const double *derived, const double *sound, double *rhs);

/* Forward elimination of the pentadiagonal systems along `axis`, over the whole cell, from
 * two ghost planes below it. upper[z][y][x][6] receives the two elements above the
 * diagonal for each of the three eigenvalues, rhs what remains. */
void npb_sp_eliminate(const struct npb_fluid_cell *cell, int32_t axis,
                      const double *derived, const double *sound, double *upper,
                      double *rhs);

/* Back substitution, from two ghost planes above the cell. */
void npb_sp_substitute(const struct npb_fluid_cell *cell, int32_t axis,
                       const double *upper, double *rhs);
