/* client_pos.h: the cursor of a client as a string: `pos` on the wire. */
#ifndef CLAIRON_HUB_CLIENT_POS_H
#define CLAIRON_HUB_CLIENT_POS_H

#include <stdbool.h>

#include "base/rc.h"
#include "store/entry.h"

/*
 * Some notifications up to a client's cursor that need an ack were not sent, because its in-flight
 * window had no room. They follow `from`, and no notification that needs an ack was sent after it.
 */
struct deferral {
    struct cursor from;
    bool by_stream; /* the user's pending list may lack some of them: the stream has all */
};

/*
 * A client's cursor, `pos` on the wire. It consists of the store's epoch, a dot, and a stream entry
 * id of the shared stream as `ms-seq`, with its generation in the high bits of `ms`. Each other
 * shard adds a dot and, if the shard is known, its difference in ms in base 36 (`-` means earlier),
 * `-seq` unless that is 0, and `G` and its generation if that differs. Example:
 * `00ff.1700000000000-3..-rs.2s-1`, where shard 1 is unknown.
 *
 * A deferral adds `~`, or `!` if it is by stream, and its start in the shared shard; for a user of
 * another shard a further `~` and its start there. Both are written like other shards:
 * `00ff.1700000000000-3~-5s`.
 *
 * Any other string is not a cursor, also one that a later version may write: the client gets a gap.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 16
/* `deferral` may be NULL. The string covers only the shards of the user. */
void client_pos_text(const char *epoch, const struct entry_id *heads, unsigned shards,
                     const struct deferral *deferral, char ret_text[CLIENT_POS_MAX]);
/*
 * Parses the cursor of a user whose shard is `own`. Without a deferral, ret_deferral->from is the
 * cursor. RC_CLOSED: from another epoch. RC_BAD: not a cursor.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct deferral *ret_deferral);

#endif
