/* reload.h: reload frames, for live rules whose rows changed without notifications. */
#ifndef CLAIRON_RELOAD_H
#define CLAIRON_RELOAD_H

#include "postgres.h"

#include "replication/logical.h"
#include "utils/rel.h"

#include "base/data.h"
#include "plan/plan.h"

/*
 * Writes, or spools, one reload frame, except in text mode. The strings are UTF-8. `sub`: the
 * sub-ordinal of the rule plus PART_RELOAD.
 */
extern void reload_write(LogicalDecodingContext *ctx, uint32 sub, const struct fragment *source,
                         const struct fragment *rule);

/*
 * Reloads the lists of the live rule once a transaction. Above RELOADS_PER_SECOND of the owner, one
 * frame reloads the lists of all rules of the table. The frame is in the transaction of the change:
 * a reload that waited for a later one would be lost with the connection.
 */
extern void reload_lists(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan);

/* Writes a reload frame for a row that was inserted into clairon.reload. */
extern void reload_change(LogicalDecodingContext *ctx, Relation relation,
                          const ReorderBufferChange *change);

#endif
