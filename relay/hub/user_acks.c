/* user_acks.c: applies acknowledgements to a user's sessions. */
#include "hub/user_acks.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "hub/ack_queue.h"
#include "hub/inflight_release.h"
#include "hub/offer.h"
#include "hub/hub_state.h"
#include "hub/members.h"

/*
 * A session that has still to receive one of them gets `acked` again behind it. `except` may be
 * NULL.
 */
static void
send_acked(struct membership *members, const struct session *except, const char *const *ids,
           size_t count)
{
    struct membership *member;

    DL_FOREACH (members, member) {
        if (member->session != except)
            session_send_acked(member->session, ids, count);
    }
}

void
hub_end_acks(struct hub *hub, const char *user, const char *const *ids, size_t count,
             bool was_acked)
{
    struct membership *members = hub_user_members(hub, user);

    for (size_t i = 0; i < count; i++) {
        if (was_acked)
            (void)members_end_inflight(members, ids[i], NULL);
        else
            members_end_retries(members, ids[i]);
    }
    if (was_acked)
        send_acked(members, NULL, ids, count);
    members_refill(members);
}

static int
compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the ids and removes duplicates. Returns the number of ret_ids. */
static size_t
sort_ids(const char *const *ids, size_t count, const char **ret_ids)
{
    bool is_sorted = true;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        ret_ids[i] = ids[i];
        is_sorted = is_sorted && (i == 0 || strcmp(ids[i - 1], ids[i]) < 0);
    }
    if (is_sorted) /* the typical case: acknowledged in commit order */
        return count;
    qsort(ret_ids, count, sizeof(*ret_ids), compare_ids);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(ret_ids[kept - 1], ret_ids[i]) != 0)
            ret_ids[kept++] = ret_ids[i];
    }
    return kept;
}

static void
apply_acks(struct hub *hub, const char *user, const struct session *session, const char *const *ids,
           size_t count)
{
    const char *sorted[SESSION_ACKS_MAX];
    struct membership *members = hub_user_members(hub, user);

    count = sort_ids(ids, count, sorted);
    for (size_t i = 0; i < count; i++)
        acks_add(hub, user, sorted[i], members_end_inflight(members, sorted[i], session));
    acks_flush(hub);
    send_acked(members, session, sorted, count);
    members_refill(members);
}

void
session_ack(struct session *session, const char *const *ids, size_t count)
{
    apply_acks(session->hub, session->client.user, session, ids, count);
}

void
hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count)
{
    apply_acks(hub, user, NULL, ids, count);
}
