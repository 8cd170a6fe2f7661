/* client_pos.h: the cursor of a client as a string: `pos` on the wire. */
#ifndef CLAIRON_HUB_FANOUT_CLIENT_POS_H
#define CLAIRON_HUB_FANOUT_CLIENT_POS_H

#include "base/rc.h"
#include "hub/fanout/tally.h"
#include "store/cursor.h"

/*
 * Notifications that need an ack and did not fit into a session's in-flight window. These
 * notifications are sent from the inbox later, unless another session acknowledges them first. A
 * notification that overtakes the backlog reports the backlog together with its cursor.
 */
struct backlog {
    struct cursor behind; /* a cursor before all of these notifications */
    struct tally waiting;
    /* the notifications in `waiting` whose ack state was requested from the store */
    struct tally queried;
    struct tally found; /* after a resume, the notifications that were read from the inbox */
    bool is_checked;    /* all notifications of the backlog were found in the inbox */
    bool is_lost;       /* some notifications may be lost, which was not announced yet */
};

/*
 * A client's cursor, `pos` on the wire. It consists of the store's epoch, a dot, and a stream entry
 * id of the shared stream as `ms-seq`, with its generation in the high bits of `ms`. Each other
 * shard adds a dot and, if the shard is known, its difference in ms in base 36 (`-` means earlier),
 * `-seq` unless that is 0, and `G` and its generation if that differs. Example:
 * `00ff.1700000000000-3..-rs.2s-1`, where shard 1 is unknown.
 *
 * A backlog adds `~`, its count, `-`, its sum, and its start in the shared shard and in the user's
 * shard, written like other shards: `00ff.1700000000000-3~2-1njchs~-5s`. A `~` without a count
 * means that part of the backlog may be lost. A missing sum means the same; earlier versions did
 * not write the sum.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 16
/* `backlog` may be NULL. The string covers only the shards of the user. */
void client_pos_text(const char *epoch, const struct entry_id *heads, unsigned shards,
                     const struct backlog *backlog, char ret_text[CLIENT_POS_MAX]);
/*
 * Parses the cursor and backlog of a user whose shard is `own`. RC_CLOSED: from another epoch.
 * RC_BAD: not a cursor.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct backlog *ret_backlog);

#endif
