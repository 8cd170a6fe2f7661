/*
 * cover.c: covered WAL: the WAL before an LSN, if the hub has all its notifications of a shard. A
 * barrier is answered, and the end of a transaction is sent, when shard 0 and the shard of the user
 * cover the commit. The life of such a position:
 *
 * Stored: with each batch the feed stores the LSN before which it has read all WAL; after WAL
 * without notifications, at most every 50 ms (stream.c of the feed, ingest.c). With one shard, the
 * last notification of the batch has it in the field `covered`. Otherwise it is the newest entry of
 * the stream KEY_COVERED (covered.lua), added behind the notifications. Of several shards only
 * shard 0 receives it each time, with `sent`: the newest notification of each other shard in this
 * WAL. The others receive it when all shards record the progress.
 *
 * Received: an XREAD reads this stream with the notifications (add_streams in reader.c). The entry
 * counts if the reply has all notifications before it; otherwise it is read again.
 *
 * In order: with several shards, it waits in order.c behind the notifications that were added
 * before it, which may wait for another shard.
 *
 * Reported: cover_report calls on_covered (hub.c), if it is newer. What shard 0 covers, another
 * shard covers too, once its notification in `sent` was delivered. The hub compares it in
 * barriers.c and ends.c.
 *
 * Dropped: after a failover of the shard (begin_history in follow.c), the stream may lack what was
 * delivered. Hub and reader drop the position, and read that of the new history. The same follows
 * reader_seek, and entries that were trimmed before they were read (renew_cover in follow.c).
 */
#include "store/read/reader_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct reader_covered NONE = {0, 0};

/* ---- received */

/* Reads an entry of the stream of positions, and advances cover->at. lsn 0: it has none. */
static struct reader_covered
read_entry(struct shard_cover *cover, const struct redisReply *entry)
{
    const char *lsn, *timeline;

    control_read_cursor(entry, cover->at);
    if (!reply_is_array(entry, 2))
        return NONE;
    lsn = (const char *)reply_field(reply_at(entry, 1), "read").at;
    timeline = (const char *)reply_field(reply_at(entry, 1), "timeline").at;
    if (lsn == NULL || timeline == NULL)
        return NONE;
    /* A reply's strings end with a zero byte. */
    return (struct reader_covered){strtoull(lsn, NULL, 16), (uint32_t)strtoul(timeline, NULL, 10)};
}

/* Returns the position in the last one of these notifications that has any. lsn 0: none. */
static struct reader_covered
read_notifications(const struct redisReply *entries)
{
    struct reader_covered covered = NONE;

    for (size_t i = reply_count(entries); i > 0 && covered.lsn == 0; i--) {
        const struct redisReply *entry = reply_at(entries, i - 1);
        const char *text;
        char *end;

        if (!reply_is_array(entry, 2))
            continue;
        text = (const char *)reply_field(reply_at(entry, 1), "covered").at;
        if (text == NULL)
            continue;
        covered.lsn = strtoull(text, &end, 16);
        covered.timeline = *end == '.' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
    }
    return covered;
}

/* True if the position is newer than the newest one, which it then becomes. */
static bool
advance(struct reader_covered *newest, struct reader_covered covered)
{
    if (covered.lsn == 0 || covered.timeline < newest->timeline ||
        (covered.timeline == newest->timeline && covered.lsn <= newest->lsn))
        return false;
    *newest = covered;
    return true;
}

/* Reads what the entry of shard 0 reports about the other shards, if it does. */
static void
read_shared(struct reader *reader, const struct redisReply *entry, struct reader_covered covered)
{
    struct shared_cover *shared = &reader->shared_cover;
    struct bytes sent;

    if (covered.lsn == 0 || reader->order == NULL)
        return;
    sent = reply_field(reply_at(entry, 1), "sent");
    if (sent.len == 0)
        return;
    memset(shared->sent, 0, reader->stream_count * sizeof(*shared->sent));
    shard_dependency_read(sent, shared->sent, reader->stream_count);
    shared->covered = covered;
}

/* The position is reported when the notifications before it are delivered. */
static void
receive(struct reader *reader, unsigned shard, struct reader_covered covered)
{
    if (!advance(&reader->streams[shard].cover.received, covered))
        return;
    if (reader->order != NULL)
        order_cover(reader->order, shard, &covered);
    else
        cover_report(reader, shard, &covered);
}

void
cover_receive(struct reader *reader, unsigned shard, const struct cover_reply *reply)
{
    struct shard_cover *cover = &reader->streams[shard].cover;
    const size_t count = reply_count(reply->positions);
    const struct redisReply *entry;
    struct reader_covered covered;

    receive(reader, shard, read_notifications(reply->notifications));
    if (count == 0 || !cover->is_requested || !reply->is_whole)
        return;
    entry = reply_at(reply->positions, count - 1);
    covered = read_entry(cover, entry);
    if (shard == 0)
        read_shared(reader, entry, covered);
    receive(reader, shard, covered);
}

/* ---- reported */

/* The shard's own position may be behind a report of shard 0. */
void
cover_report(void *ctx, unsigned shard, const struct reader_covered *covered)
{
    struct reader *reader = ctx;

    if (advance(&reader->streams[shard].cover.reported, *covered))
        reader->events.on_covered(reader->events.ctx, shard, covered);
}

/*
 * Shards whose newest notification is delivered cover what shard 0 covers. That notification may
 * have been denied or trimmed: then a later position of the shard itself shows that it will not
 * come.
 */
void
cover_report_shared(struct reader *reader)
{
    const struct shared_cover *shared = &reader->shared_cover;

    for (unsigned i = 1; shared->covered.lsn != 0 && i < reader->stream_count; i++) {
        const struct reader_covered *reported = &reader->streams[i].cover.reported;

        if (order_has_delivered(reader->order, i, shared->sent[i]) ||
            (reported->timeline == shared->covered.timeline && reported->lsn > shared->sent[i].lsn))
            cover_report(reader, i, &shared->covered);
    }
}

/* ---- dropped */

void
cover_reset(struct reader *reader, unsigned shard)
{
    struct shard_cover *cover = &reader->streams[shard].cover;

    snprintf(cover->at, sizeof(cover->at), "0-0");
    cover->is_requested = false;
    cover->received = cover->reported = NONE;
    if (shard == 0)
        reader->shared_cover.covered = NONE;
}

void
cover_begin_history(struct shard_cover *cover)
{
    cover->reported = NONE;
}
