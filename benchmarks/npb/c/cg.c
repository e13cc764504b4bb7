/* CG's sparse matrix: a sum of outer products of random sparse vectors, with weights that
 * fall geometrically, plus a multiple of the identity (NASA report RNR-94-007,
 * section 2.2). */
#include "cg.h"

#include <math.h>

#include "lcg.h"

/* The smallest weight, and the condition number's reciprocal. */
#define SMALLEST 0.1

void npb_cg_draw(const struct npb_cg_block *block, uint64_t seed, int32_t *items,
                 double *values, int32_t *counts, int32_t *marks)
{
    uint64_t state = seed;
    int32_t power = 1, width = block->row_items + 1;
    while (power < block->order)
        power *= 2;
    for (int32_t row = 0; row < block->order; row++) {
        int32_t *item = items + (int64_t)row * width, count = 0, own = -1;
        double *value = values + (int64_t)row * width;
        while (count < block->row_items) {
            double drawn = npb_lcg_next(&state);
            int32_t place = (int32_t)(power * npb_lcg_next(&state));
            if (place >= block->order || marks[place])
                continue;
            marks[place] = 1;
            if (place == row)
                own = count;
            item[count] = place;
            value[count++] = drawn;
        }
        for (int32_t i = 0; i < count; i++)
            marks[item[i]] = 0;
        if (own < 0) {
            own = count++;
            item[own] = row;
        }
        value[own] = 0.5;
        counts[row] = count;
    }
}

static int in_rows(const struct npb_cg_block *block, int32_t row)
{
    return row >= block->first_row && row < block->end_row;
}

static int in_columns(const struct npb_cg_block *block, int32_t column)
{
    return column >= block->first_column && column < block->end_column;
}

void npb_cg_count(const struct npb_cg_block *block, const int32_t *items,
                  const int32_t *counts, int32_t *bounds)
{
    int32_t width = block->row_items + 1;
    for (int32_t v = 0; v < block->order; v++) {
        const int32_t *item = items + (int64_t)v * width;
        int32_t columns = 0;
        for (int32_t i = 0; i < counts[v]; i++)
            columns += in_columns(block, item[i]);
        for (int32_t i = 0; i < counts[v]; i++)
            if (in_rows(block, item[i]))
                bounds[item[i] - block->first_row] += columns;
    }
    for (int32_t row = block->first_row; row < block->end_row; row++)
        bounds[row - block->first_row] += in_columns(block, row);
}

/* Puts the terms of all outer products into their rows, unsorted and with duplicates;
 * starts[r] ends up as the end of row r. */
static void scatter(const struct npb_cg_block *block, const int32_t *items,
                    const double *values, const int32_t *counts, int32_t *starts,
                    int32_t *columns, double *elements)
{
    int32_t width = block->row_items + 1;
    double ratio = pow(SMALLEST, 1.0 / block->order), weight = 1.0;
    for (int32_t v = 0; v < block->order; v++, weight *= ratio) {
        const int32_t *item = items + (int64_t)v * width;
        const double *value = values + (int64_t)v * width;
        for (int32_t c = 0; c < counts[v]; c++) {
            if (!in_columns(block, item[c]))
                continue;
            for (int32_t r = 0; r < counts[v]; r++) {
                if (!in_rows(block, item[r]))
                    continue;
                int32_t at = starts[item[r] - block->first_row]++;
                columns[at] = item[c];
                elements[at] = value[r] * (weight * value[c]);
            }
        }
    }
    for (int32_t row = block->first_row; row < block->end_row; row++) {
        if (!in_columns(block, row))
            continue;
        int32_t at = starts[row - block->first_row]++;
        columns[at] = row;
        elements[at] = SMALLEST - block->shift;
    }
}

void npb_cg_assemble(const struct npb_cg_block *block, const int32_t *items,
                     const double *values, const int32_t *counts, int32_t *starts,
                     int32_t *columns, double *elements, double *work, int32_t *marks)
{
    int32_t rows = block->end_row - block->first_row, made = 0, begin = 0;
    scatter(block, items, values, counts, starts, columns, elements);
    for (int32_t row = 0; row < rows; row++) {
        int32_t end = starts[row], first = made;
        starts[row] = made;
        for (int32_t at = begin; at < end; at++) {
            int32_t column = columns[at];
            work[column] += elements[at];
            if (!marks[column]) {
                marks[column] = 1;
                columns[made++] = column;
            }
        }
        for (int32_t at = first; at < made; at++) {
            int32_t column = columns[at];
            elements[at] = work[column];
            columns[at] = column - block->first_column;
            work[column] = 0.0;
            marks[column] = 0;
        }
        begin = end;
    }
    starts[rows] = made;
}

void npb_cg_multiply(int32_t rows, const int32_t *starts, const int32_t *columns,
                     const double *elements, const double *vector, double *product)
{
    for (int32_t row = 0; row < rows; row++) {
        double sum = 0.0;
        for (int32_t at = starts[row]; at < starts[row + 1]; at++)
            sum += elements[at] * vector[columns[at]];
        product[row] = sum;
    }
}

double npb_cg_dot(int32_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (int32_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}
