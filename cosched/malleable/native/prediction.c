#include "prediction.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OPEN_NODES 4096
#define ALL_UP_TO 16
#define LONGEST_S 3.2e9 /* a hundred years */
#define NS_PER_S 1e9

static int take(struct cosched_page_prediction *prediction, cosched_predict predict, void *data,
                int32_t nodes, char *why, size_t why_bytes) {
    const double time_s = predict(nodes, data);
    const uint32_t place = prediction->count++;
    if (!isfinite(time_s) || time_s <= 0.0 || time_s > LONGEST_S) {
        snprintf(why, why_bytes, "with %d nodes it is %g, not a time in seconds", nodes, time_s);
        return -EINVAL;
    }
    prediction->nodes[place] = (uint32_t)nodes;
    prediction->exec_ns[place] = time_s * NS_PER_S < 1.0 ? 1 : (uint64_t)(time_s * NS_PER_S + 0.5);
    return 0;
}

int cosched_prediction_ask(struct cosched_page_prediction *prediction, cosched_predict predict,
                           void *data, int32_t minimum, int32_t ideal, char *why,
                           size_t why_bytes) {
    const int32_t open = minimum > OPEN_NODES ? minimum : OPEN_NODES;
    const int32_t most = ideal == 0 ? open : ideal;
    int32_t nodes = minimum;
    memset(prediction, 0, sizeof *prediction);
    while (nodes < most && prediction->count < COSCHED_PAGE_POINTS - 1) {
        if (take(prediction, predict, data, nodes, why, why_bytes) != 0)
            return -EINVAL;
        nodes += nodes < ALL_UP_TO ? 1 : nodes / 4;
    }
    return take(prediction, predict, data, most, why, why_bytes);
}
