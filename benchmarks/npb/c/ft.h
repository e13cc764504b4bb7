#pragma once
#include <stdint.h>

/* Fills `count` doubles with the numbers after `seed`. */
void npb_ft_draw(uint64_t seed, int64_t count, double *numbers);

/* Fourier transforms, in place and not normalised, along the middle axis of an array of
 * complex numbers, [outer][length][inner]; length is a power of two up to 512. `roots`:
 * exp(sign 2 pi i k / length) for k up to length / 2. */
void npb_ft_transform(int64_t outer, int32_t length, int64_t inner, const double *roots,
                      double *data);

/* spectrum *= factors; evolved = spectrum: `count` complex numbers, real factors. */
void npb_ft_evolve(int64_t count, const double *factors, double *spectrum,
                   double *evolved);
