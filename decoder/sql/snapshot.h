/* snapshot.h: a snapshot as text, to compare it with the transaction ids of notifications. */
#ifndef CLAIRON_SNAPSHOT_H
#define CLAIRON_SNAPSHOT_H

#include "postgres.h"

#include "utils/snapshot.h"

/* Returns xmin:xmax:xip,xip.. with 64-bit ids in decimal, in the current memory context. */
extern char *snapshot_text(Snapshot snapshot);

#endif
