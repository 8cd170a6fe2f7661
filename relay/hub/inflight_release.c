/* inflight_release.c: ends notifications in the in-flight windows of a user's sessions. */
#include "hub/inflight_release.h"

#include <string.h>
#include <utlist.h>

#include "hub/offer.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"

int
members_end_inflight(struct membership *members, const char *text, const struct session *by)
{
    struct membership *member;
    unsigned char id[16];
    int shard = -1;

    if (!frame_id_parse(text, strlen(text), id))
        return -1;
    DL_FOREACH (members, member) {
        int known = session_inflight_end(member->session, id,
                                         member->session == by ? INFLIGHT_ENDED : INFLIGHT_ACKED);

        shard = known >= 0 ? known : shard;
    }
    return shard;
}

void
members_end_retries(struct membership *members, const char *text)
{
    struct membership *member;
    unsigned char id[16];

    if (!frame_id_parse(text, strlen(text), id))
        return;
    DL_FOREACH (members, member)
        session_inflight_end_retries(member->session, id);
}

void
members_refill(struct membership *members)
{
    struct membership *member;

    DL_FOREACH (members, member)
        session_mark(member->session, READY_REFILL);
}
