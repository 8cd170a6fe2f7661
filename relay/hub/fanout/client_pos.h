/* client_pos.h: the cursor of a client as text: `pos` on the wire. */
#ifndef CLAIRON_HUB_FANOUT_CLIENT_POS_H
#define CLAIRON_HUB_FANOUT_CLIENT_POS_H

#include "base/rc.h"
#include "hub/fanout/tally.h"
#include "store/cursor.h"

/*
 * Notifications that need an ack and did not fit into a session's in-flight window. They are sent
 * from the inbox later, unless another session acknowledges them first. Notifications that overtake
 * them report them with their cursor.
 */
struct backlog {
    struct cursor behind; /* all of them are after it */
    struct tally waiting;
    struct tally queried; /* of these, those whose ack state the store was queried for */
    struct tally found;   /* after a resume, those read from the inbox so far */
    bool is_checked;      /* .. and all of them are found */
    bool is_lost;         /* some may be lost; not announced yet */
};

/*
 * A client's cursor, `pos` on the wire: the store's epoch, a dot, an entry id of the shared
 * stream as `ms-seq`. For each other shard follow a dot and, if the shard is known, its difference
 * in ms in base 36 (`-` means earlier), and `-seq` unless that is 0.
 * `00ff.1700000000000-3..-rs.2s-1` knows nothing about shard 1. A backlog is `~`, its count, `-`,
 * its sum, and its start in the shared and the user's shard, written like other shards:
 * `00ff.1700000000000-3~2-1njchs~-5s`. A `~` alone means that some of it may be lost, as does a
 * missing sum, which earlier versions wrote.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 32
/* With a backlog (may be NULL), which concerns the user's shards only. */
void client_pos_text(const char *epoch, const struct entry_id *heads, unsigned shards,
                     const struct backlog *backlog, char ret_text[CLIENT_POS_MAX]);
/*
 * The cursor and backlog of a user whose shard is `own`. RC_CLOSED: of another epoch. RC_BAD: no
 * cursor.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct backlog *ret_backlog);

#endif
