#pragma once
#include <stdint.h>

/* A block of the matrix: rows first_row .. end_row - 1, columns likewise, of `order`. */
struct npb_cg_block {
    int32_t order;
    int32_t row_items;
    int32_t first_row, end_row;
    int32_t first_column, end_column;
    double shift;
};

/* Draws the generating vectors: `order` of them after `seed`, each of row_items + 1 places
 * in items and values, of which counts says how many are used. `marks`: `order` zeros. */
void npb_cg_draw(const struct npb_cg_block *block, uint64_t seed, int32_t *items,
                 double *values, int32_t *counts, int32_t *marks);

/* Upper bounds of how many non-zeros each row of the block has. */
void npb_cg_count(const struct npb_cg_block *block, const int32_t *items,
                  const int32_t *counts, int32_t *bounds);

/* Adds up the block: row r is columns[starts[r]] ... up to starts[r + 1], columns counted
 * from the block's first. starts holds the sums of the bounds and becomes exact;
 * `work`: `order` zeros; `marks`: `order` zeros. */
void npb_cg_assemble(const struct npb_cg_block *block, const int32_t *items,
                     const double *values, const int32_t *counts, int32_t *starts,
                     int32_t *columns, double *elements, double *work, int32_t *marks);

/* product = matrix times vector. */
void npb_cg_multiply(int32_t rows, const int32_t *starts, const int32_t *columns,
                     const double *elements, const double *vector, double *product);

/* The inner product. */
double npb_cg_dot(int32_t count, const double *a, const double *b);
