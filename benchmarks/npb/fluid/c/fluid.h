#pragma once
#include <stdint.h>

/* A box of points of the cubic grid on which LU, SP and BT solve the same equations.
 * Fields of w values a point are [z][y][x][w] with two ghost layers all round. */
struct npb_fluid_cell {
    int32_t edge;      /* points of the whole grid along an axis */
    int32_t points[3]; /* of this box along x, y, z, without ghosts */
    int32_t first[3];  /* where this box begins in the whole grid */
    double dt;         /* the time step */
};

/* The exact solution, on all points and ghosts. */
void npb_fluid_exact(const struct npb_fluid_cell *cell, double *u);

/* The initial guess: exact on the boundary of the whole grid, blended between inside. */
void npb_fluid_begin(const struct npb_fluid_cell *cell, double *u);

/* The values for right-hand side and Jacobians, at each point and first ghost:
 * 1 / density, three velocities, energy / density, kinetic energy / density. */
void npb_fluid_derive(const struct npb_fluid_cell *cell, const double *u, double *derived);

/* rhs = scale (forcing + R(u)) on the points that are not boundary: fluxes, viscosity and
 * fourth-order dissipation of all three directions. */
void npb_fluid_rhs(const struct npb_fluid_cell *cell, double scale, const double *u,
                   const double *derived, const double *forcing, double *rhs);

/* u += factor rhs, on the points that are not boundary. */
void npb_fluid_add(const struct npb_fluid_cell *cell, double factor, const double *rhs,
                   double *u);

/* Adds the squares of each of the five values of the points that are not boundary. */
void npb_fluid_square(const struct npb_fluid_cell *cell, const double *field, double *sums);

/* The same of the difference to the exact solution, on all points: the boundary is exact,
 * unless a file that was read is damaged. */
void npb_fluid_error(const struct npb_fluid_cell *cell, const double *u, double *sums);
