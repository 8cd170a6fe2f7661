/*
 * why.c: explains whether a notification reached a user, from its trace, the pairs of notification
 * and user that the store has, and the gaps that were announced. Nothing is guessed: what these do
 * not contain is unknown.
 *
 * The members at the commit are known only of a notification that needs acknowledgements: its pairs
 * are created in the step that stores it. A pair is pending or acknowledged, or its end is in the
 * trace, until the trace is shortened or expires.
 */
#include "store/admin.h"

#include <stdio.h>
#include <string.h>

#include "wire/frame.h"

enum outcome {
    OUTCOME_NOT_ADDRESSED,
    OUTCOME_NOT_MEMBER,
    OUTCOME_NOT_SUBSCRIBED,
    OUTCOME_PENDING,
    OUTCOME_DELIVERED,
    OUTCOME_ACKED,
    OUTCOME_EXPIRED,
    OUTCOME_EXHAUSTED,
    OUTCOME_DROPPED,
    OUTCOME_GAP,
    OUTCOME_UNKNOWN
};

static const char *const OUTCOMES[] = {
    [OUTCOME_NOT_ADDRESSED] = "not_addressed",
    [OUTCOME_NOT_MEMBER] = "not_member",
    [OUTCOME_NOT_SUBSCRIBED] = "not_subscribed",
    [OUTCOME_PENDING] = "pending",
    [OUTCOME_DELIVERED] = "delivered",
    [OUTCOME_ACKED] = "acked",
    [OUTCOME_EXPIRED] = "expired",
    [OUTCOME_EXHAUSTED] = "exhausted",
    [OUTCOME_DROPPED] = "dropped",
    [OUTCOME_GAP] = "gap",
    [OUTCOME_UNKNOWN] = "unknown",
};

/* What is known of a notification and a user. The events belong to the trace. */
struct explanation {
    const struct trace *trace;
    const struct user_facts *facts;
    const char *user;
    const struct frame_notification *frame; /* NULL: the header was trimmed from the stream */
    struct frame parsed;
    bool needs_ack;
    enum fact addressed;
    enum outcome outcome;
    char acked_at[CLOCK_TEXT_MAX];       /* "": not acknowledged */
    const struct trace_event *committed; /* NULL: unknown, as those below */
    const struct trace_event *stored;
    const struct trace_event *ended;         /* errored or dropped, of the user, not redriven */
    const struct trace_event *unsubscribed;  /* the newest of the user */
    const struct trace_event *last_delivery; /* of the user */
    unsigned deliveries;                     /* since the last redrive */
    bool is_recipient;
};

/* ---- deciding */

static void
read_event(struct explanation *why, const struct trace_event *event)
{
    const struct bytes stage = event->stage;

    if (event->user.len == 0 || !bytes_equal_text(event->user, why->user))
        return;
    why->is_recipient = true;
    if (bytes_equal_text(stage, "sent")) {
        why->last_delivery = event;
        why->deliveries++;
    } else if (bytes_equal_text(stage, "unsubscribed")) {
        why->unsubscribed = event;
    } else if (bytes_equal_text(stage, "acked")) {
        snprintf(why->acked_at, sizeof(why->acked_at), "%s", event->at);
    } else if (bytes_equal_text(stage, "errored") || bytes_equal_text(stage, "dropped")) {
        why->ended = event;
    } else if (bytes_equal_text(stage, "redriven")) {
        why->ended = why->unsubscribed = why->last_delivery = NULL;
        why->deliveries = 0;
    }
}

static bool
is_target(const struct frame_notification *frame, const char *user)
{
    struct bytes targets = frame->targets, target;

    while (frame_next_target(&targets, &target) == RC_OK)
        if (bytes_equal_text(target, user))
            return true;
    return false;
}

static bool
is_audience(const struct explanation *why, const char *name)
{
    return why->frame != NULL && bytes_equal_text(why->frame->audience, name);
}

static enum fact
addressed_of(const struct explanation *why)
{
    if (why->is_recipient || is_audience(why, "ALL"))
        return FACT_YES;
    if (why->frame == NULL)
        return FACT_UNKNOWN;
    if (is_audience(why, "USER"))
        return is_target(why->frame, why->user) ? FACT_YES : FACT_NO;
    return why->needs_ack && why->facts->knows_pairs && why->facts->is_open_ended == FACT_NO
               ? FACT_NO
               : FACT_UNKNOWN;
}

static enum outcome
outcome_of(const struct explanation *why)
{
    if (why->facts->is_waiting && why->deliveries > 0)
        return OUTCOME_DELIVERED;
    if (why->facts->is_waiting && why->facts->has_gap)
        return OUTCOME_GAP;
    if (why->facts->is_waiting)
        return why->unsubscribed != NULL ? OUTCOME_NOT_SUBSCRIBED : OUTCOME_PENDING;
    if (why->acked_at[0] != '\0' && why->ended == NULL)
        return OUTCOME_ACKED;
    if (why->ended != NULL && bytes_equal_text(why->ended->stage, "dropped"))
        return OUTCOME_DROPPED;
    if (why->ended != NULL)
        return bytes_equal_text(why->ended->detail, "exhausted") ? OUTCOME_EXHAUSTED
                                                                 : OUTCOME_EXPIRED;
    if (why->deliveries > 0)
        return OUTCOME_DELIVERED;
    if (why->addressed == FACT_NO)
        return is_audience(why, "USER") ? OUTCOME_NOT_ADDRESSED : OUTCOME_NOT_MEMBER;
    return why->facts->has_gap ? OUTCOME_GAP : OUTCOME_UNKNOWN;
}

static struct explanation
explain(const struct trace *trace, const char *user)
{
    struct explanation why = {.trace = trace, .facts = &trace->facts, .user = user};

    why.committed = trace_find_stage(trace, "committed");
    why.stored = trace_find_stage(trace, "stored");
    why.is_recipient = trace->facts.is_waiting || trace->facts.acked_ms > 0;
    for (size_t i = 0; i < trace->event_count; i++)
        read_event(&why, &trace->events[i]);
    if (trace->facts.acked_ms > 0) {
        clock_text_ms(trace->facts.acked_ms, why.acked_at);
        why.ended = NULL;
    }
    if (trace->facts.is_waiting)
        why.acked_at[0] = '\0'; /* a former round */
    return why;
}

/* `why` must not move afterwards. */
static void
decide(struct explanation *why)
{
    if (frame_parse_header(why->trace->route, &why->parsed) == RC_OK) {
        why->frame = &why->parsed.as.notification;
        why->needs_ack = (why->parsed.flags & FRAME_ACK_REQUIRED) != 0;
    }
    why->addressed = addressed_of(why);
    why->outcome = outcome_of(why);
}

/* ---- the text */

static enum rc
add_bytes(struct buffer *out, enum rc rc, const char *before, struct bytes text, const char *after)
{
    if (rc == RC_OK)
        rc = buffer_addf(out, "%s%.*s%s", before, (int)text.len, (const char *)text.at, after);
    return rc;
}

static enum rc
add_audience(const struct explanation *why, struct buffer *out)
{
    const struct frame_notification *frame = why->frame;
    struct bytes targets = frame->targets, target;
    enum rc rc = add_bytes(out, RC_OK, "", frame->audience, "");

    if (frame->target_count == 1 && frame_next_target(&targets, &target) == RC_OK)
        return add_bytes(out, rc, " ", target, "");
    if (rc == RC_OK && frame->target_count > 1)
        rc = buffer_addf(out, " (%u targets)", frame->target_count);
    return rc;
}

/* ", after 2 deliveries" */
static enum rc
add_deliveries(const struct explanation *why, struct buffer *out)
{
    if (why->deliveries == 0)
        return buffer_addf(out, "; no delivery to a connection is recorded");
    return buffer_addf(out, ", after %u deliver%s, the last one at %s", why->deliveries,
                       why->deliveries == 1 ? "y" : "ies", why->last_delivery->at);
}

static const char *
conn_of(const struct trace_event *event, char ret_conn[STORE_CONN_TEXT + 1])
{
    ret_conn[0] = '\0';
    if (trace_event_has_conn(event))
        snprintf(ret_conn, STORE_CONN_TEXT + 1, "%.*s", (int)event->detail.len,
                 (const char *)event->detail.at);
    return ret_conn;
}

/* Why the outcome is not known. */
static enum rc
add_unknown(const struct explanation *why, struct buffer *out)
{
    if (why->frame == NULL)
        return buffer_addf(out,
                           "It is not known whether it reached %s: the notification was "
                           "trimmed from the stream, and its trace has no event of this user",
                           why->user);
    if (!why->needs_ack)
        return buffer_addf(out,
                           "It is not known whether it reached %s: it needs no "
                           "acknowledgement, and the deliveries of such notifications are not "
                           "recorded",
                           why->user);
    return buffer_addf(out,
                       "It is not known whether it reached %s: its trace has no event of this "
                       "user, and is not complete or has expired",
                       why->user);
}

static enum rc
add_verdict(const struct explanation *why, struct buffer *out)
{
    const struct user_gap *gap = &why->facts->gap;
    char conn[STORE_CONN_TEXT + 1];
    enum rc rc = RC_OK;

    switch (why->outcome) {
    case OUTCOME_NOT_ADDRESSED:
        return buffer_addf(out, "It was not addressed to %s: not one of its targets", why->user);
    case OUTCOME_NOT_MEMBER:
        return buffer_addf(out,
                           "%s was not a member of the audience at the commit: clairon.member "
                           "had no row for it",
                           why->user);
    case OUTCOME_NOT_SUBSCRIBED:
        return buffer_addf(out,
                           "It is pending for %s: connection %s was not subscribed to its "
                           "topic at %s",
                           why->user, conn_of(why->unsubscribed, conn), why->unsubscribed->at);
    case OUTCOME_PENDING:
        return buffer_addf(out, "It is pending for %s, and was not delivered to a connection yet",
                           why->user);
    case OUTCOME_DELIVERED:
        rc = buffer_addf(out, "It was delivered to %s, and is not acknowledged", why->user);
        return rc == RC_OK ? add_deliveries(why, out) : rc;
    case OUTCOME_ACKED:
        rc = buffer_addf(out, "%s acknowledged it at %s", why->user, why->acked_at);
        return rc == RC_OK ? add_deliveries(why, out) : rc;
    case OUTCOME_EXPIRED:
        rc = buffer_addf(out, "It expired for %s at %s without an acknowledgement", why->user,
                         why->ended->at);
        return rc == RC_OK ? add_deliveries(why, out) : rc;
    case OUTCOME_EXHAUSTED:
        rc = buffer_addf(out, "Its retries for %s were exhausted at %s without an acknowledgement",
                         why->user, why->ended->at);
        return rc == RC_OK ? add_deliveries(why, out) : rc;
    case OUTCOME_DROPPED:
        rc = buffer_addf(out, "An operator dropped it for %s at %s", why->user, why->ended->at);
        return rc == RC_OK ? add_deliveries(why, out) : rc;
    case OUTCOME_GAP:
        return buffer_addf(out,
                           "At %s connection %s of %s received a gap (%s) that covers it: the "
                           "client had to load its data again",
                           gap->at, gap->conn, why->user, gap->why);
    case OUTCOME_UNKNOWN:
        break;
    }
    return add_unknown(why, out);
}

/* The notification itself, and what is known of the membership. */
static enum rc
add_notification(const struct explanation *why, struct buffer *out)
{
    const bool is_group =
        why->frame != NULL && !is_audience(why, "USER") && !is_audience(why, "ALL");
    enum rc rc;

    if (why->frame == NULL && trace_is_gone(why->trace))
        return buffer_addf(out, " The store does not have the notification any more, so it is not "
                                "known whether it was addressed to this user.");
    if (why->frame == NULL)
        return buffer_addf(out, " Its audience is not known any more.");
    rc = buffer_addf(out, " Audience: ");
    if (rc == RC_OK)
        rc = add_audience(why, out);
    rc = add_bytes(out, rc, ". Topic: ", why->frame->topic, ".");
    if (why->frame->rule.len > 0)
        rc = add_bytes(out, rc, " Rule: ", why->frame->rule, ".");
    if (rc == RC_OK && why->committed != NULL)
        rc = buffer_addf(out, " Committed at %s.", why->committed->at);
    if (rc == RC_OK && is_group && why->addressed == FACT_UNKNOWN)
        rc = buffer_addf(out,
                         " Whether %s was a member at the commit is not known: the members are "
                         "recorded only with a notification that needs acknowledgements, and "
                         "not those by token.",
                         why->user);
    if (rc == RC_OK && is_group && why->facts->is_member != FACT_UNKNOWN)
        rc = buffer_addf(out, " By clairon.member, %s is %s member now.", why->user,
                         why->facts->is_member == FACT_YES ? "a" : "not a");
    return rc;
}

static enum rc
add_state(const struct explanation *why, struct buffer *out)
{
    const struct user_facts *facts = why->facts;
    enum rc rc = RC_OK;

    if (why->outcome == OUTCOME_NOT_MEMBER)
        rc = buffer_addf(out, " A connection whose token names the group receives it without "
                              "an acknowledgement.");
    if (rc == RC_OK && facts->retries > 0)
        rc = buffer_addf(out, " Retries delivered: %d.", facts->retries);
    if (rc == RC_OK && facts->is_in_error_log == FACT_YES)
        rc = buffer_addf(out, " It is in the error log.");
    if (rc == RC_OK && why->addressed != FACT_NO && facts->relays == 0)
        rc = buffer_addf(out, " %s is not connected now.", why->user);
    else if (rc == RC_OK && why->addressed != FACT_NO && facts->relays > 0)
        rc = buffer_addf(out, " %s is connected to %d relay%s now.", why->user, facts->relays,
                         facts->relays == 1 ? "" : "s");
    return rc;
}

static enum rc
write_text(const struct explanation *why, struct buffer *out)
{
    enum rc rc = add_verdict(why, out);

    if (rc == RC_OK)
        rc = buffer_add(out, ".", 1);
    if (rc == RC_OK)
        rc = add_notification(why, out);
    return rc == RC_OK ? add_state(why, out) : rc;
}

enum rc
why_write_text(const struct trace *trace, const char *user, struct buffer *out)
{
    struct explanation why = explain(trace, user);

    decide(&why);
    return write_text(&why, out);
}

/* ---- JSON */

static enum rc
add_text(struct buffer *out, enum rc rc, const char *name, struct bytes text)
{
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"%s\":", name);
    if (rc == RC_OK)
        rc = text.at != NULL ? buffer_add_json(out, (const char *)text.at, text.len)
                             : buffer_addf(out, "null");
    return rc;
}

/* `text` NULL or "": null */
static enum rc
add_string(struct buffer *out, enum rc rc, const char *name, const char *text)
{
    const bool is_null = text == NULL || text[0] == '\0';

    return add_text(out, rc, name, is_null ? (struct bytes){NULL, 0} : bytes_of_text(text));
}

static enum rc
add_fact(struct buffer *out, enum rc rc, const char *name, enum fact fact)
{
    return rc == RC_OK ? buffer_addf(out, ",\"%s\":%s", name,
                                     fact == FACT_YES  ? "true"
                                     : fact == FACT_NO ? "false"
                                                       : "null")
                       : rc;
}

/* The events of the user with a connection: [{"at":..,"conn":..},..] */
static enum rc
add_events(const struct explanation *why, struct buffer *out, enum rc rc, const char *name,
           const char *stage)
{
    const char *separator = "";
    char conn[STORE_CONN_TEXT + 1];

    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < why->trace->event_count && rc == RC_OK; i++) {
        const struct trace_event *event = &why->trace->events[i];

        if (!bytes_equal_text(event->stage, stage) || !bytes_equal_text(event->user, why->user))
            continue;
        rc = buffer_addf(out, "%s{\"at\":\"%s\"", separator, event->at);
        rc = add_string(out, rc, "conn", conn_of(event, conn));
        if (rc == RC_OK)
            rc = buffer_add(out, "}", 1);
        separator = ",";
    }
    return rc == RC_OK ? buffer_add(out, "]", 1) : rc;
}

static enum rc
add_gap(const struct explanation *why, struct buffer *out, enum rc rc)
{
    const struct user_gap *gap = &why->facts->gap;

    if (rc == RC_OK && !why->facts->has_gap)
        return buffer_addf(out, ",\"gap\":null");
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"gap\":{\"at\":\"%s\"", gap->at);
    rc = add_string(out, rc, "conn", gap->conn);
    rc = add_string(out, rc, "why", gap->why);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

static enum rc
add_details(const struct explanation *why, struct buffer *out, enum rc rc)
{
    const struct frame_notification *frame = why->frame;
    const struct bytes none = {NULL, 0};

    rc = add_text(out, rc, "audience", frame != NULL ? frame->audience : none);
    if (rc == RC_OK)
        rc = frame != NULL ? buffer_addf(out, ",\"targets\":%u", frame->target_count)
                           : buffer_addf(out, ",\"targets\":null");
    rc = add_text(out, rc, "topic", frame != NULL ? frame->topic : none);
    rc = add_text(out, rc, "rule", frame != NULL && frame->rule.len > 0 ? frame->rule : none);
    rc = add_string(out, rc, "committed_at", why->committed != NULL ? why->committed->at : NULL);
    rc = add_string(out, rc, "stored_at", why->stored != NULL ? why->stored->at : NULL);
    rc = add_string(out, rc, "ended_at", why->ended != NULL ? why->ended->at : NULL);
    rc = add_events(why, out, rc, "unsubscribed", "unsubscribed");
    rc = add_gap(why, out, rc);
    rc = add_fact(out, rc, "is_member", why->facts->is_member);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"retries\":%d", why->facts->retries);
    if (rc == RC_OK)
        rc = why->facts->relays >= 0 ? buffer_addf(out, ",\"relays\":%d", why->facts->relays)
                                     : buffer_addf(out, ",\"relays\":null");
    return rc;
}

enum rc
why_write_json(const struct trace *trace, const char *id, const char *user, struct buffer *out)
{
    struct explanation why = explain(trace, user);
    struct buffer text;
    enum rc rc;

    decide(&why);
    buffer_init(&text, WHY_TEXT_MAX);
    rc = write_text(&why, &text);
    if (rc == RC_OK)
        rc = buffer_addf(out, "{\"id\":\"%s\"", id);
    rc = add_string(out, rc, "user", user);
    rc = add_string(out, rc, "explanation", rc == RC_OK ? text.bytes : NULL);
    buffer_free(&text);
    rc = add_fact(out, rc, "addressed", why.addressed);
    rc = add_string(out, rc, "outcome", OUTCOMES[why.outcome]);
    rc = add_events(&why, out, rc, "delivered", "sent");
    rc = add_string(out, rc, "acked_at", why.acked_at);
    rc = add_fact(out, rc, "in_error_log", why.facts->is_in_error_log);
    rc = add_details(&why, out, rc);
    return rc == RC_OK ? buffer_addf(out, "}\n") : rc;
}
