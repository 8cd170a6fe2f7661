/* writes.c: the transactions that wrote rules. */
#include "rules/writes.h"

#include "access/transam.h"
#include "utils/memutils.h"

static bool
is_before(const struct rule_write *write, TransactionId xid, Oid relid)
{
    return write->xid != xid ? write->xid < xid : write->relid < relid;
}

/* Returns the index of the first write that is not before these values. */
static int
find_write(const struct rule_writes *writes, TransactionId xid, Oid relid)
{
    int low = 0;
    int high = writes->count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (is_before(&writes->writes[middle], xid, relid))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
rule_writes_add(struct rule_writes *writes, TransactionId xid, Oid relid)
{
    int at = find_write(writes, xid, relid);

    if (!TransactionIdIsNormal(xid) || TransactionIdPrecedes(xid, writes->horizon))
        return;
    if (at < writes->count && writes->writes[at].xid == xid && writes->writes[at].relid == relid)
        return;
    if (writes->count == writes->room) {
        int room = Max(2 * writes->room, 64);

        writes->writes =
            writes->writes == NULL
                ? MemoryContextAllocHuge(writes->context, sizeof(struct rule_write) * room)
                : repalloc_huge(writes->writes, sizeof(struct rule_write) * room);
        writes->room = room;
    }
    memmove(&writes->writes[at + 1], &writes->writes[at],
            sizeof(struct rule_write) * (writes->count - at));
    writes->writes[at] = (struct rule_write){.xid = xid, .relid = relid};
    writes->count++;
}

/*
 * The transactions that a historic snapshot lists have committed. *next is an index in that list,
 * which is sorted as the writes are: so the time is proportional to the length of both.
 */
static bool
is_visible(Snapshot snapshot, TransactionId xid, uint32 *next)
{
    while (*next < snapshot->xcnt && snapshot->xip[*next] < xid)
        (*next)++;
    if (TransactionIdPrecedes(xid, snapshot->xmin))
        return true;
    return TransactionIdPrecedes(xid, snapshot->xmax) && *next < snapshot->xcnt &&
           snapshot->xip[*next] == xid;
}

void
rule_writes_look(struct rule_writes *writes, Snapshot snapshot,
                 void (*changed)(void *arg, Oid relid), void *arg)
{
    uint32 next = 0;
    int kept = 0;

    for (int i = 0; i < writes->count; i++) {
        struct rule_write write = writes->writes[i];
        bool visible = is_visible(snapshot, write.xid, &next);

        if (visible != write.is_visible)
            changed(arg, write.relid);
        write.is_visible = visible;
        if (!visible || !TransactionIdPrecedes(write.xid, writes->horizon))
            writes->writes[kept++] = write;
    }
    writes->count = kept;
}
