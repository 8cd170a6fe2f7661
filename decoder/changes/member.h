/* member.h: changes of clairon.member, as member frames. */
#ifndef CLAIRON_MEMBER_H
#define CLAIRON_MEMBER_H

#include "postgres.h"

#include "replication/logical.h"

#include "plan/plan.h"

extern void member_change(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                          ReorderBufferChange *change);

/* Writes, or spools, one member frame; `change` is '+' or '-'. */
extern void member_write(LogicalDecodingContext *ctx, char change,
                         char *const texts[MEMBER_FIELDS]);

#endif
