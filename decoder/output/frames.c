/*
 * frames.c: combine frames into few writes.
 *
 * In text mode each line is one write, see lines.c. A write costs more than rendering ten rows, so
 * frames are buffered across small transactions that commit in one page of WAL. Buffered frames
 * never wait for new WAL: the server requests each page through read_page() of plugin.c, which
 * flushes first. Long transactions start with a flush, so that progress messages reach the
 * receiver.
 */
#include "output/output.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "port/pg_bswap.h"

#include "base/data.h"
#include "decoder.h"
#include "encode/encode.h"

/* Buffered frames are written when they exceed this size. */
#define WRITE_BYTES (64 * 1024)
#define KEPT_BYTES (16 * WRITE_BYTES) /* a larger buffer is freed after its write */

/* A transaction with more changes than this starts with a flush. */
#define BUFFERED_CHANGES_MAX 64

static void
put16(char *at, uint16 value)
{
    value = pg_hton16(value);
    memcpy(at, &value, sizeof(value));
}

static void
put32(char *at, uint32 value)
{
    value = pg_hton32(value);
    memcpy(at, &value, sizeof(value));
}

static void
put64(char *at, uint64 value)
{
    value = pg_hton64(value);
    memcpy(at, &value, sizeof(value));
}

/* Computes the seeds of all ids in a transaction, which are the same on every timeline. */
static void
seed_transaction(struct decoder *decoder, ReorderBufferTXN *txn)
{
    struct {
        uint64 system;
        uint64 lsn;
        uint64 time;
        uint64 xid;
    } origin = {decoder->system_identifier, txn->final_lsn, (uint64)txn->xact_time.commit_time,
                txn->xid};

    for (int i = 0; i < 2; i++)
        decoder->seeds[i] =
            hash_bytes_extended((const unsigned char *)&origin, sizeof(origin), i + 1);
}

/*
 * The next id is less than 2^31 ahead of the decoded id: the slot's catalog_xmin, or the
 * transaction itself while it is prepared, prevents the freezing of older rows. During recovery the
 * next id follows the replayed WAL, which contains the transaction.
 */
void
frames_begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    struct decoder *decoder = ctx->output_plugin_private;
    char *end;

    if (txn->nentries > BUFFERED_CHANGES_MAX || txn->nsubtxns > 0)
        frames_flush(ctx);
    decoder->held_bytes = 0;
    decoder->change_number = 0;
    decoder->transaction_number++;
    decoder->repeats = 0;
    decoder->wrote = false;
    decoder->annotation = NULL;
    decoder->xid = full_xid(txn->xid, ReadNextFullTransactionId());
    decoder->commit_lsn = txn->final_lsn;
    decoder->commit_time = encode_clamp_time(txn->xact_time.commit_time);
    decoder->commit_us = (uint64)(decoder->commit_time + POSTGRES_EPOCH_US);
    end = encode_instant(decoder->commit_text, decoder->commit_time);
    decoder->commit_text_len = end - decoder->commit_text;
    seed_transaction(decoder, txn);
}

StringInfo
frames_open(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->write_open)
        OutputPluginPrepareWrite(ctx, true);
    decoder->write_open = true;
    decoder->wrote = true;
    decoder->skipped = 0;
    return ctx->out;
}

void
frames_flush(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->write_open)
        return;
    decoder->write_open = false;
    if (decoder->options.framed)
        OutputPluginWrite(ctx, true);
    else
        lines_write(ctx);
    if (ctx->out->maxlen > KEPT_BYTES) {
        MemoryContext old = MemoryContextSwitchTo(ctx->context);

        pfree(ctx->out->data);
        initStringInfo(ctx->out);
        MemoryContextSwitchTo(old);
    }
}

void
frames_close(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->options.framed || ctx->out->len >= WRITE_BYTES)
        frames_flush(ctx);
}

static char *
put_common(struct decoder *decoder, StringInfo out, char kind, uint16 flags, uint64 ordinal,
           int size)
{
    char *at = encode_reserve(out, size);

    memset(at, 0, size);
    at[FRAME_AT_KIND] = kind;
    at[FRAME_AT_VERSION] = FRAME_VERSION;
    put16(at + FRAME_AT_FLAGS, flags);
    put64(at + FRAME_AT_COMMIT_LSN, decoder->commit_lsn);
    put64(at + FRAME_AT_ORDINAL, ordinal);
    out->len += size;
    return at;
}

static int
put_target_texts(StringInfo out, const struct target_list *targets)
{
    int start = out->len;

    for (int i = 0; i < targets->count; i++) {
        char *at = encode_reserve(out, targets->lengths[i] + 2);

        put16(at, targets->lengths[i]);
        memcpy(at + 2, targets->texts[i], targets->lengths[i]);
        out->len += targets->lengths[i] + 2;
    }
    return out->len - start;
}

static void
put_receipts(char *at, const struct delivery *delivery)
{
    at[FRAME_NOTIFICATION_AT_RECEIPTS] = delivery->receipts;
    for (int i = 0; i < FRAME_ESCALATIONS; i++)
        put32(at + FRAME_NOTIFICATION_AT_ESCALATIONS + i * FRAME_ESCALATION_SIZE,
              delivery->escalations[i]);
}

static void
put_web_push(StringInfo out, const struct fragment *text)
{
    put16(encode_reserve(out, 2), text->len);
    out->len += 2;
    encode_raw(out, text->bytes, text->len);
}

int
frames_put_header(struct decoder *decoder, StringInfo out, const struct notification_header *header)
{
    int start = out->len;
    char *at = put_common(decoder, out, FRAME_KIND_NOTIFICATION, header->flags, header->ordinal,
                          FRAME_NOTIFICATION_HEAD_SIZE);
    int targets_len;

    memcpy(at + FRAME_NOTIFICATION_AT_ID, header->id.data, UUID_LEN);
    put64(at + FRAME_NOTIFICATION_AT_COMMIT_US, decoder->commit_us);
    put64(at + FRAME_NOTIFICATION_AT_EXPIRES_US, header->expires_us);
    at[FRAME_NOTIFICATION_AT_PRIORITY] = header->delivery.priority;
    at[FRAME_NOTIFICATION_AT_TYPE] = header->delivery.type;
    at[FRAME_NOTIFICATION_AT_OPERATION] = header->operation;
    at[FRAME_NOTIFICATION_AT_BACKOFF] = header->delivery.backoff;
    put16(at + FRAME_NOTIFICATION_AT_RETRY_LIMIT, header->delivery.retry_limit);
    put16(at + FRAME_NOTIFICATION_AT_AUDIENCE_LEN, header->audience.len);
    put16(at + FRAME_NOTIFICATION_AT_TOPIC_LEN, header->topic.len);
    put32(at + FRAME_NOTIFICATION_AT_TARGET_COUNT, header->targets->count);
    if ((header->flags & FRAME_ACK_TIMED) != 0)
        put32(at + FRAME_NOTIFICATION_AT_ACK_TIMEOUT, header->delivery.ack_timeout);
    if ((header->flags & FRAME_RECEIPTS) != 0)
        put_receipts(at, &header->delivery);
    put64(at + FRAME_NOTIFICATION_AT_XID, decoder->xid);
    put32(at + FRAME_NOTIFICATION_AT_OWNER, header->owner);
    put16(at + FRAME_NOTIFICATION_AT_RULE_LEN, header->rule.len);
    encode_raw(out, header->audience.bytes, header->audience.len);
    encode_raw(out, header->topic.bytes, header->topic.len);
    encode_raw(out, header->rule.bytes, header->rule.len);
    targets_len = put_target_texts(out, header->targets);
    put32(out->data + start + FRAME_NOTIFICATION_AT_TARGETS_LEN, targets_len);
    if ((header->flags & FRAME_WEB_PUSH) != 0)
        put_web_push(out, &header->web_push);
    return start;
}

void
frames_put_member(struct decoder *decoder, StringInfo out, char change, uint32 sub,
                  char *const texts[MEMBER_FIELDS])
{
    int start = out->len;
    uint64 ordinal = FRAME_ORDINAL(decoder->change_number, sub);
    char *at = put_common(decoder, out, FRAME_KIND_MEMBER, 0, ordinal, FRAME_MEMBER_HEAD_SIZE);

    at[FRAME_MEMBER_AT_CHANGE] = change;
    put16(at + FRAME_MEMBER_AT_AUDIENCE_LEN, strlen(texts[0]));
    put16(at + FRAME_MEMBER_AT_TARGET_LEN, strlen(texts[1]));
    put16(at + FRAME_MEMBER_AT_USER_LEN, strlen(texts[2]));
    put64(at + FRAME_MEMBER_AT_XID, decoder->xid);
    for (int i = 0; i < MEMBER_FIELDS; i++)
        encode_raw(out, texts[i], strlen(texts[i]));
    frames_finish(out, start);
}

void
frames_put_reload(struct decoder *decoder, StringInfo out, uint32 sub,
                  const struct fragment *source, const struct fragment *rule)
{
    int start = out->len;
    uint64 ordinal = FRAME_ORDINAL(decoder->change_number, sub);
    char *at = put_common(decoder, out, FRAME_KIND_RELOAD, 0, ordinal, FRAME_RELOAD_HEAD_SIZE);

    put64(at + FRAME_RELOAD_AT_XID, decoder->xid);
    put16(at + FRAME_RELOAD_AT_SOURCE_LEN, source->len);
    put16(at + FRAME_RELOAD_AT_RULE_LEN, rule->len);
    encode_raw(out, source->bytes, source->len);
    encode_raw(out, rule->bytes, rule->len);
    frames_finish(out, start);
}

void
frames_add_flags(StringInfo out, int start, uint16 flags)
{
    char *at = out->data + start + FRAME_AT_FLAGS;
    uint16 value;

    memcpy(&value, at, sizeof(value));
    put16(at, pg_ntoh16(value) | flags);
}

void
frames_finish(StringInfo out, int start)
{
    put32(out->data + start + FRAME_AT_LENGTH, out->len - start);
}

void
frames_end_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    struct decoder *decoder = ctx->output_plugin_private;
    StringInfo out;
    char *at;
    int start;

    if (!decoder->wrote && decoder->repeats == 0) {
        /* The server may now report a position behind this transaction and all buffered frames. */
        frames_flush(ctx);
        return;
    }
    if (!decoder->options.framed)
        return;
    out = frames_open(ctx);
    start = out->len;
    at = put_common(decoder, out, FRAME_KIND_COMMIT,
                    Min(decoder->repeats, FRAME_REPEATS_MAX) << FRAME_REPEATS_SHIFT,
                    FRAME_ORDINAL_COMMIT, FRAME_COMMIT_SIZE);
    put64(at + FRAME_COMMIT_AT_END_LSN, txn->end_lsn);
    put64(at + FRAME_COMMIT_AT_COMMIT_US, decoder->commit_us);
    frames_finish(out, start);
    if (!decoder->buffers_frames || out->len >= WRITE_BYTES)
        frames_flush(ctx);
}
