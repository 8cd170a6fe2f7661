/*
 * writes.h: the transactions that wrote rules.
 *
 * Reading all rules takes milliseconds, and each command that changes a catalog creates a new
 * snapshot. So the rules of a relation are read again only if a transaction that wrote them is
 * visible in the new snapshot and was not in the last one, or the other way round.
 *
 * The list is complete: the rules are first read after the start of the session, when the table
 * contains all rows of transactions that were confirmed before. The session decodes all others, and
 * receives their changes of the table before any snapshot includes the transaction.
 */
#ifndef CLAIRON_WRITES_H
#define CLAIRON_WRITES_H

#include "postgres.h"

#include "utils/snapshot.h"

struct rule_write {
    TransactionId xid; /* a transaction or subtransaction */
    Oid relid;         /* whose rules it wrote; InvalidOid: of any relation */
    bool is_visible;   /* in the last snapshot */
};

struct rule_writes {
    MemoryContext context;
    TransactionId horizon; /* all snapshots include the committed transactions before it */
    int count;
    int room;
    struct rule_write *writes; /* sorted by xid as a number, then relid; without duplicates */
};

/* `writes` must be zeroed, except for its context and horizon. */
extern void rule_writes_add(struct rule_writes *writes, TransactionId xid, Oid relid);

/*
 * Calls `changed` for each write whose visibility in the snapshot differs from that in the last
 * one. Forgets the transactions before the horizon.
 */
extern void rule_writes_look(struct rule_writes *writes, Snapshot snapshot,
                             void (*changed)(void *arg, Oid relid), void *arg);

#endif
