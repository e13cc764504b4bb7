/*
 * prediction.h - asks a program to predict the time of an iteration, as cosched/malleable/prediction.py
 * does.
 */
#ifndef COSCHED_MALLEABLE_PREDICTION_H
#define COSCHED_MALLEABLE_PREDICTION_H

#include <stddef.h>

#include "cosched/malleable.h"
#include "cosched/page.h"

/* Fills the prediction by the program's function. ideal: 0 if it is not known. Returns -EINVAL, with the
 * reason in `why`, if a predicted time cannot be right. */
int cosched_prediction_ask(struct cosched_page_prediction *prediction, cosched_predict predict,
                           void *data, int32_t minimum, int32_t ideal, char *why, size_t why_bytes);

#endif
