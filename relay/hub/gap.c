/* gap.c: announces notifications that a session will not receive. */
#include "hub/gap.h"

#include <stdio.h>
#include <string.h>

#include "hub/control.h"
#include "hub/hub_state.h"
#include "hub/cursors.h"
#include "hub/ready_list.h"
#include "hub/session.h"
#include "hub/shed.h"

void
session_gap_later(struct session *session, struct cursor from, const char *why)
{
    session->control.gap_from =
        session->control.gap_why != NULL ? cursor_min(session->control.gap_from, from) : from;
    session->control.gap_why = why;
    session->has_control = true;
    session_mark(session, READY_SEND);
}

static void
count_gap(struct stats *stats, const char *why)
{
    static const struct {
        const char *why;
        enum metric stat;
    } gaps[] = {{"trimmed", STAT_HUB_GAPS_TRIMMED},
                {"expired", STAT_HUB_GAPS_EXPIRED},
                {"epoch", STAT_HUB_GAPS_EPOCH},
                {"shed", STAT_HUB_GAPS_SHED}};

    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
        if (strcmp(gaps[i].why, why) == 0)
            stats_add(stats, gaps[i].stat, 1);
}

void
session_send_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    char from_text[CLIENT_POS_MAX], to_text[CLIENT_POS_MAX], line[3 * CLIENT_POS_MAX];
    int len;

    session_pos_text(session, from, from_text);
    session_pos_text(session, to, to_text);
    len =
        snprintf(line, sizeof(line), "{\"t\":\"gap\",\"from\":\"%s\",\"to\":\"%s\",\"why\":\"%s\"}",
                 from_text, to_text, why);
    if (!session_can_send_control(session, (size_t)len)) {
        session_gap_later(session, from, why);
        return;
    }
    count_gap(session->hub->stats, why);
    session_send_control(session, line, (size_t)len);
}

void
session_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    to =
        session_before_queue(session, session->control.has_dropped ? shed_cursor(session, to) : to);
    session_send_gap(session, cursor_min(to, from), to, why);
}

void
session_send_late_gap(struct session *session)
{
    const char *why = session->control.gap_why;

    if (why == NULL)
        return;
    session->control.gap_why = NULL;
    session_gap(session, session->control.gap_from, session_reached(session), why);
}
