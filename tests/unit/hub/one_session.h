/* one_session.h: a hub with one session. */
#ifndef CLAIRON_TESTS_UNIT_ONE_SESSION_H
#define CLAIRON_TESTS_UNIT_ONE_SESSION_H

#include <stdlib.h>
#include <string.h>

#include "hub/hub_private.h"
#include "store/shards/shard.h"
#include "wire/ws_frame.h"

static struct config config = {.gate = {.slow_bytes = 4096, .slow_age_ms = 30000}};
static struct stats stats;
static struct hub hub;
static struct store down_store;
static struct session session;

static inline void
open_session(const struct session_transport *transport, void *socket, unsigned shards)
{
    memset(&stats, 0, sizeof(stats));
    hub = (struct hub){.config = &config,
                       .stats = &stats,
                       .store = &down_store,
                       .shards = shards,
                       .epoch = "e",
                       .has_head = true};
    hub.loop = ev_default_loop(0);
    hub.scratch = calloc(1, WS_TEXT_HEAD_MAX + SESSION_CONTROL_MAX);
    replay_buffer_open(&hub.replay_buffer, shards);
    session = (struct session){.state = SESSION_LIVE, .hub = &hub, .socket = {socket, transport}};
}

static inline void
clear_control(void)
{
    buffer_free(&session_control_queue(&session)->frames);
    session_end_control(&session);
}

static inline void
close_session(void)
{
    ev_idle_stop(hub.loop, &hub.more);
    outbound_clear(&session.outbound, &hub.queued_bytes);
    replay_buffer_close(&hub.replay_buffer);
    clear_control();
    free(hub.scratch);
}

#endif
