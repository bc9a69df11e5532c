// SPDX-License-Identifier: Apache-2.0
// Measures latencies and costs of struct ht_calibration on the machine at hand, in some seconds.
#ifndef HEAPTAPE_MEASURE_COSTS_H
#define HEAPTAPE_MEASURE_COSTS_H

#include "cost_model.h"

// False with errno: no memory for it. ENOTSUP: this machine is none that the simulation knows.
bool ht_measure_costs(struct ht_calibration *calibration);

#endif
