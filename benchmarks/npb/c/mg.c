/* MG: the operators of a multigrid V-cycle on a periodic cube (NASA report
 * RNR-94-007, section 2.2). All are 27-point stencils whose weights depend on the distance alone, so
 * sums over the four neighbours across x, and over the four diagonal ones, are shared. */
#include "mg.h"

#include "lcg.h"

/* The operator A by distance 0, 2 and 3; at distance 1 it is zero. */
#define A_CENTRE (-8.0 / 3.0)
#define A_EDGE (1.0 / 6.0)
#define A_CORNER (1.0 / 12.0)

/* The longest row of any class, with ghosts, and room to spare. */
#define ROW 1040

static int64_t row_at(const struct npb_mg_grid *grid, int32_t y, int32_t z)
{
    return ((int64_t)z * grid->y + y) * grid->x;
}

/* Around each x of the row (y, z): near, the four points beside it; far, the four diagonal
 * ones. */
static void gather(const struct npb_mg_grid *grid, const double *field, int32_t y,
                   int32_t z, double *restrict near, double *restrict far)
{
    const double *south = field + row_at(grid, y - 1, z);
    const double *north = field + row_at(grid, y + 1, z);
    const double *below = field + row_at(grid, y, z - 1);
    const double *above = field + row_at(grid, y, z + 1);
    const double *south_below = field + row_at(grid, y - 1, z - 1);
    const double *north_below = field + row_at(grid, y + 1, z - 1);
    const double *south_above = field + row_at(grid, y - 1, z + 1);
    const double *north_above = field + row_at(grid, y + 1, z + 1);
    for (int32_t x = 0; x < grid->x; x++) {
        near[x] = south[x] + north[x] + below[x] + above[x];
        far[x] = south_below[x] + north_below[x] + south_above[x] + north_above[x];
    }
}

void npb_mg_residual(const struct npb_mg_grid *grid, const double *solution,
                     const double *right, double *residual)
{
    double near[ROW], far[ROW];
    for (int32_t z = 1; z < grid->z - 1; z++) {
        for (int32_t y = 1; y < grid->y - 1; y++) {
            int64_t at = row_at(grid, y, z);
            gather(grid, solution, y, z, near, far);
            for (int32_t x = 1; x < grid->x - 1; x++)
                residual[at + x] = right[at + x] - A_CENTRE * solution[at + x]
                                   - A_EDGE * (far[x] + near[x - 1] + near[x + 1])
                                   - A_CORNER * (far[x - 1] + far[x + 1]);
        }
    }
}

void npb_mg_smooth(const struct npb_mg_grid *grid, const double *weights,
                   const double *residual, double *solution)
{
    double near[ROW], far[ROW];
    double centre = weights[0], face = weights[1], edge = weights[2];
    for (int32_t z = 1; z < grid->z - 1; z++) {
        for (int32_t y = 1; y < grid->y - 1; y++) {
            const double *row = residual + row_at(grid, y, z);
            double *restrict out = solution + row_at(grid, y, z);
            gather(grid, residual, y, z, near, far);
            for (int32_t x = 1; x < grid->x - 1; x++)
                out[x] += centre * row[x] + face * (row[x - 1] + row[x + 1] + near[x])
                          + edge * (far[x] + near[x - 1] + near[x + 1]);
        }
    }
}

/* Where the finest neighbour of coarse point 1 is: with one interior point alone, a rank
 * holds the fine point that coincides with it at 1, and at 2 otherwise. */
static int32_t offset(int32_t fine_edge)
{
    return fine_edge == 3 ? 1 : 0;
}

void npb_mg_restrict(const struct npb_mg_grid *fine_grid, const double *fine,
                     const struct npb_mg_grid *coarse_grid, double *coarse)
{
    double near[ROW], far[ROW];
    int32_t dx = offset(fine_grid->x), dy = offset(fine_grid->y), dz = offset(fine_grid->z);
    for (int32_t z = 1; z < coarse_grid->z - 1; z++) {
        for (int32_t y = 1; y < coarse_grid->y - 1; y++) {
            const double *row = fine + row_at(fine_grid, 2 * y - dy, 2 * z - dz);
            double *out = coarse + row_at(coarse_grid, y, z);
            gather(fine_grid, fine, 2 * y - dy, 2 * z - dz, near, far);
            for (int32_t x = 1; x < coarse_grid->x - 1; x++) {
                int32_t f = 2 * x - dx;
                out[x] = 0.5 * row[f] + 0.25 * (row[f - 1] + row[f + 1] + near[f])
                         + 0.125 * (near[f - 1] + near[f + 1] + far[f])
                         + 0.0625 * (far[f - 1] + far[f + 1]);
            }
        }
    }
}

/* Adds to a fine row what `weight` times the coarse row `row` interpolates to. */
static void prolong_row(int32_t coarse_edge, int32_t dx, double weight, const double *row,
                        double *restrict out)
{
    for (int32_t x = dx; x < coarse_edge - 1; x++)
        out[2 * x - dx] += weight * row[x];
    for (int32_t x = 0; x < coarse_edge - 1; x++)
        out[2 * x + 1 - dx] += 0.5 * weight * (row[x] + row[x + 1]);
}

void npb_mg_prolong(const struct npb_mg_grid *coarse_grid, const double *coarse,
                    const struct npb_mg_grid *fine_grid, double *fine)
{
    double row[ROW];
    int32_t dx = offset(fine_grid->x), dy = offset(fine_grid->y), dz = offset(fine_grid->z);
    for (int32_t z = 0; z < coarse_grid->z - 1; z++) {
        for (int32_t y = 0; y < coarse_grid->y - 1; y++) {
            /* Fine rows lie on a coarse row or midway to the next, in y and in z. */
            for (int32_t mid_z = z < dz; mid_z < 2; mid_z++) {
                for (int32_t mid_y = y < dy; mid_y < 2; mid_y++) {
                    const double *a = coarse + row_at(coarse_grid, y, z);
                    const double *b = coarse + row_at(coarse_grid, y + mid_y, z);
                    const double *c = coarse + row_at(coarse_grid, y, z + mid_z);
                    const double *d = coarse + row_at(coarse_grid, y + mid_y, z + mid_z);
                    for (int32_t x = 0; x < coarse_grid->x; x++)
                        row[x] = a[x] + b[x] + c[x] + d[x];
                    prolong_row(coarse_grid->x, dx, 0.25, row,
                                fine + row_at(fine_grid, 2 * y + mid_y - dy,
                                              2 * z + mid_z - dz));
                }
            }
        }
    }
}

double npb_mg_square(const struct npb_mg_grid *grid, const double *field)
{
    double sum = 0.0;
    for (int32_t z = 1; z < grid->z - 1; z++) {
        for (int32_t y = 1; y < grid->y - 1; y++) {
            const double *row = field + row_at(grid, y, z);
            for (int32_t x = 1; x < grid->x - 1; x++)
                sum += row[x] * row[x];
        }
    }
    return sum;
}

void npb_mg_draw(uint64_t seed, uint64_t row_leap, int32_t rows, int32_t count,
                 double *numbers)
{
    uint64_t first = seed;
    for (int32_t row = 0; row < rows; row++) {
        uint64_t state = first;
        for (int32_t i = 0; i < count; i++)
            numbers[(int64_t)row * count + i] = npb_lcg_next(&state);
        first = (first * row_leap) & NPB_LCG_MASK;
    }
}
