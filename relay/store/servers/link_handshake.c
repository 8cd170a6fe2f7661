/* link_handshake.c: authenticates a new connection of a link, and loads the scripts. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/servers/link_private.h"

static const char *const script_texts[] = {
#define STORE_SCRIPT_ENTRY(name) store_script_##name,
    STORE_SCRIPTS(STORE_SCRIPT_ENTRY)
#undef STORE_SCRIPT_ENTRY
};

/* Returns false if the link has gone down. */
static bool
handshake_accepted(struct link *link, const struct redisReply *reply)
{
    if (link->state != LINK_HANDSHAKE || reply == NULL)
        return false; /* the disconnect callback logs the reason */
    if (!reply_is_error(reply))
        return true;
    if (fault_is_busy(reply_text(reply)))
        link_wait_while_busy(link);
    else
        link_fail(link, reply_text(reply));
    return false;
}

static void
on_script(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;
    const struct bytes sha = reply_bytes(reply);

    if (link->is_busy || !handshake_accepted(link, reply))
        return; /* the handshake begins again */
    if (sha.len != SHA_TEXT) {
        link_fail(link, "invalid reply to SCRIPT LOAD");
        return;
    }
    memcpy(link->shas[link->scripts_loaded++], sha.at, SHA_TEXT);
    if (link->scripts_loaded < STORE_SCRIPT_COUNT)
        return;
    link->state = LINK_UP;
    link->events.on_up(link->events.ctx);
}

static void
on_info(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;
    const char *info = reply_text(reply);

    if (!handshake_accepted(link, reply))
        return;
    if (info != NULL && strstr(info, "\nrole:slave") != NULL && servers_can_move(link->servers)) {
        link_fail(link, "READONLY this server is a replica");
        return;
    }
    if (info != NULL && strstr(info, "\nloading:1") != NULL) {
        if (!link->is_loading)
            log_warn(link->name, "store is loading its dataset");
        link->is_loading = true;
        ev_timer_set(&link->retry, LINK_POLL_S, 0.0);
        ev_timer_start(link->loop, &link->retry);
        return;
    }
    link->is_loading = link->is_busy = false;
    link->scripts_loaded = 0;
    for (int i = 0; i < STORE_SCRIPT_COUNT && link->state == LINK_HANDSHAKE; i++)
        link_send_setup(link, on_script, 3, "SCRIPT", "LOAD", script_texts[i]);
}

/* KeyDB replies to PING while it loads its dataset, so only INFO detects the load. */
static void
wait_until_loaded(struct link *link)
{
    link_send_setup(link, on_info, 1, "INFO", NULL, NULL);
}

static void
on_selected(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (handshake_accepted(link, reply))
        wait_until_loaded(link);
}

static void
send_select(struct link *link)
{
    char database[16];

    snprintf(database, sizeof(database), "%d", link->address.database);
    link_send_setup(link, on_selected, 2, "SELECT", database, NULL);
}

static void
on_authenticated(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (handshake_accepted(link, reply))
        send_select(link);
}

void
link_begin_handshake(struct link *link)
{
    if (link->address.password[0] == '\0')
        send_select(link);
    else if (link->address.user[0] == '\0')
        link_send_setup(link, on_authenticated, 2, "AUTH", link->address.password, NULL);
    else
        link_send_setup(link, on_authenticated, 3, "AUTH", link->address.user,
                        link->address.password);
}
