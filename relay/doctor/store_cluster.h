/* store_cluster.h: the checks of a store that is a cluster. */
#ifndef CLAIRON_DOCTOR_STORE_CLUSTER_H
#define CLAIRON_DOCTOR_STORE_CLUSTER_H

#include "base/config.h"
#include "doctor/findings.h"

/* Checks each node. Returns false if a shard has no primary that replies. */
bool store_cluster_check(const struct config *config, struct findings *findings);

#endif
