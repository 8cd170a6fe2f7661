/* gaps.c: records the gaps that were announced to users, so that store_why can name them. */
#include <stdio.h>

#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define GAP_TEXT_MAX (4 * ENTRY_ID_TEXT_MAX + STORE_CONN_TEXT + 16)

static bool
on_recorded(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)request;
    (void)shard;
    return reply_is_integer(reply);
}

static void
finish(struct shard_request *request, enum rc rc)
{
    (void)request;
    (void)rc; /* on failure, an explanation will lack the gap */
}

static const struct shard_request_kind gap_kind = {
    .failure = "could not record a gap", .on_reply = on_recorded, .finish = finish};

/* "trimmed 1795230000000-0 0-0 1795230000005-0 0-0 a1b2c3d4-1": in both streams, from and to. */
void
store_record_gap(struct store *store, const char *user, const char *conn, struct cursor from,
                 struct cursor to, const char *why)
{
    struct shard *shard;
    struct arguments arguments = {.argc = 0};
    struct shard_request *request;
    char ids[4][ENTRY_ID_TEXT_MAX], text[GAP_TEXT_MAX];

    if (!store->is_up)
        return;
    shard = &store->shards[store_shard_of(store, user)];
    entry_id_text(entry_id_raw(from.shared), ids[0]);
    entry_id_text(entry_id_raw(from.own), ids[1]);
    entry_id_text(entry_id_raw(to.shared), ids[2]);
    entry_id_text(entry_id_raw(to.own), ids[3]);
    snprintf(text, sizeof(text), "%s %s %s %s %s %s", why, ids[0], ids[1], ids[2], ids[3], conn);
    request = shard_request_new(sizeof(*request), store, &gap_kind);
    shard_arguments(shard, &arguments);
    argument(&arguments, user);
    argument(&arguments, store->script_settings.retention);
    argument(&arguments, text);
    shard_request_send_script(request, shard, STORE_SCRIPT_gap, 1, &arguments);
    if (shard_request_await(request) != RC_OK)
        return; /* an explanation will lack the gap */
}
