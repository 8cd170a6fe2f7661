/* topics.c: the topics to which a session is subscribed. */
#include "hub/session_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

#define SUBSCRIBED_FRAME_MAX (4 * SESSION_TOPICS_BYTES_MAX) /* quoted, and may be escaped */

/*
 * Both arrays are sorted bytewise. `prefixes` points to the names that end in '*' and are not
 * covered by a shorter prefix: only the last prefix before a topic can match it.
 */
struct topics {
    size_t count;
    size_t room; /* capacity of both arrays */
    size_t bytes;
    size_t prefix_count;
    char **names;
    const char **prefixes;
    struct cursor skipped; /* of topics_skip */
};

static int
compare(const char *name, size_t name_len, struct bytes topic)
{
    size_t shared = name_len < topic.len ? name_len : topic.len;
    int order = shared > 0 ? memcmp(name, topic.at, shared) : 0;

    if (order != 0)
        return order;
    return name_len < topic.len ? -1 : name_len > topic.len;
}

static struct bytes
bytes_of(const char *name)
{
    return (struct bytes){(const unsigned char *)name, strlen(name)};
}

/* Returns the first index whose name is not below `name`. */
static size_t
index_of(const struct topics *topics, struct bytes name)
{
    size_t low = 0;
    size_t high = topics->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(topics->names[middle], strlen(topics->names[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
is_at(const struct topics *topics, size_t index, struct bytes name)
{
    return index < topics->count &&
           compare(topics->names[index], strlen(topics->names[index]), name) == 0;
}

/* The length without the '*'. */
static size_t
prefix_len(const char *name)
{
    return strlen(name) - 1;
}

static bool
covers(const char *prefix, struct bytes topic)
{
    size_t len = prefix_len(prefix);

    return len <= topic.len && (len == 0 || memcmp(prefix, topic.at, len) == 0);
}

static int
order_of_prefixes(const void *a, const void *b)
{
    const char *first = *(const char *const *)a;
    const char *second = *(const char *const *)b;
    struct bytes other = {(const unsigned char *)second, prefix_len(second)};

    return compare(first, prefix_len(first), other);
}

static void
index_prefixes(struct topics *topics)
{
    size_t count = 0;
    size_t kept = 0;

    for (size_t i = 0; i < topics->count; i++) {
        if (topics->names[i][strlen(topics->names[i]) - 1] == '*')
            topics->prefixes[count++] = topics->names[i];
    }
    if (count > 1)
        qsort(topics->prefixes, count, sizeof(topics->prefixes[0]), order_of_prefixes);
    for (size_t i = 0; i < count; i++) {
        const char *prefix = topics->prefixes[i];
        struct bytes stem = {(const unsigned char *)prefix, prefix_len(prefix)};

        if (kept == 0 || !covers(topics->prefixes[kept - 1], stem))
            topics->prefixes[kept++] = prefix;
    }
    topics->prefix_count = kept;
}

static void
insert(struct topics *topics, const char *name)
{
    size_t len = strlen(name);
    size_t index = index_of(topics, bytes_of(name));

    if (is_at(topics, index, bytes_of(name)))
        return;
    if (topics->count == topics->room) {
        topics->room = topics->room == 0 ? 4 : topics->room * 2;
        topics->names = memory_grow(topics->names, topics->room * sizeof(topics->names[0]));
        topics->prefixes =
            memory_grow(topics->prefixes, topics->room * sizeof(topics->prefixes[0]));
    }
    memmove(topics->names + index + 1, topics->names + index,
            (topics->count - index) * sizeof(topics->names[0]));
    topics->names[index] = memory_text(name, len);
    topics->count++;
    topics->bytes += len;
}

/* Duplicates are counted: a client that repeats a name too often is rejected. */
static bool
fits(const struct topics *topics, const char *const *names, size_t count)
{
    size_t bytes = topics != NULL ? topics->bytes : 0;
    size_t have = topics != NULL ? topics->count : 0;

    for (size_t i = 0; i < count; i++) {
        size_t index = topics != NULL ? index_of(topics, bytes_of(names[i])) : 0;

        if (topics != NULL && is_at(topics, index, bytes_of(names[i])))
            continue;
        bytes += strlen(names[i]);
        have++;
    }
    return have <= SESSION_TOPICS_MAX && bytes <= SESSION_TOPICS_BYTES_MAX;
}

enum rc
topics_add(struct topics **topics, const char *const *names, size_t count)
{
    if (!fits(*topics, names, count))
        return RC_LIMIT;
    if (*topics == NULL)
        *topics = memory_new(sizeof(**topics));
    for (size_t i = 0; i < count; i++)
        insert(*topics, names[i]);
    index_prefixes(*topics);
    return RC_OK;
}

static void
remove_topic(struct topics *topics, const char *name)
{
    size_t index = index_of(topics, bytes_of(name));

    if (!is_at(topics, index, bytes_of(name)))
        return;
    topics->bytes -= strlen(name);
    free(topics->names[index]);
    topics->count--;
    memmove(topics->names + index, topics->names + index + 1,
            (topics->count - index) * sizeof(topics->names[0]));
}

void
topics_remove(struct topics **topics, const char *const *names, size_t count)
{
    static const char *const EVERYTHING[] = {"*"};

    if (*topics == NULL && topics_add(topics, EVERYTHING, 1) != RC_OK)
        return;
    for (size_t i = 0; i < count; i++)
        remove_topic(*topics, names[i]);
    index_prefixes(*topics);
}

bool
topics_match(const struct topics *topics, struct bytes topic)
{
    size_t low = 0;
    size_t high;

    if (topics == NULL || is_at(topics, index_of(topics, topic), topic))
        return true;
    high = topics->prefix_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *prefix = topics->prefixes[middle];

        if (compare(prefix, prefix_len(prefix), topic) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && covers(topics->prefixes[low - 1], topic);
}

bool
topics_skip(struct topics *topics, unsigned shard, struct entry_id id)
{
    if (!cursor_is_before(&topics->skipped, shard, id))
        return false;
    cursor_advance(&topics->skipped, shard, id);
    return true;
}

enum rc
topics_write(const struct topics *topics, struct buffer *out)
{
    enum rc rc;

    if (topics == NULL)
        return buffer_addf(out, "[\"*\"]");
    rc = buffer_add(out, "[", 1);
    for (size_t i = 0; i < topics->count && rc == RC_OK; i++) {
        if (i > 0)
            rc = buffer_add(out, ",", 1);
        if (rc == RC_OK)
            rc = buffer_add_json(out, topics->names[i], strlen(topics->names[i]));
    }
    return rc == RC_OK ? buffer_add(out, "]", 1) : rc;
}

void
topics_free(struct topics *topics)
{
    if (topics == NULL)
        return;
    for (size_t i = 0; i < topics->count; i++)
        free(topics->names[i]);
    free(topics->names);
    free(topics->prefixes);
    free(topics);
}

/* ---- the topics of a session */

static void
send_subscribed(struct session *session, bool has_request_id, int64_t request_id)
{
    struct buffer frame;
    bool is_whole;

    buffer_init(&frame, SUBSCRIBED_FRAME_MAX);
    is_whole = buffer_addf(&frame, "{\"t\":\"subscribed\",") == RC_OK;
    if (has_request_id)
        is_whole &= buffer_addf(&frame, "\"r\":%" PRId64 ",", request_id) == RC_OK;
    is_whole = is_whole && buffer_addf(&frame, "\"topics\":") == RC_OK &&
               topics_write(session->topics, &frame) == RC_OK &&
               buffer_add(&frame, "}", 1) == RC_OK;
    if (is_whole)
        session_send_control(session, SESSION_LINE_CONTROL, frame.bytes, frame.len, NULL);
    else
        log_error("hub", "topics exceed the size of a control frame", LOG_SESSION(session));
    buffer_free(&frame);
}

enum rc
session_add_topics(struct session *session, const struct session_topics *topics)
{
    enum rc rc = topics_add(&session->topics, topics->names, topics->count);

    session->has_topics = session->topics != NULL;
    return rc;
}

enum rc
session_subscribe(struct session *session, const struct session_topics *topics, bool has_request_id,
                  int64_t request_id)
{
    enum rc rc = RC_AGAIN;

    if (session_can_send_control(session, SUBSCRIBED_FRAME_MAX))
        rc = session_add_topics(session, topics);
    if (rc != RC_OK)
        return rc;
    send_subscribed(session, has_request_id, request_id);
    /* Notifications outside the previous topics are in the pending list. */
    session_rewind(session);
    return RC_OK;
}

enum rc
session_unsubscribe(struct session *session, const struct session_topics *topics,
                    bool has_request_id, int64_t request_id)
{
    if (!session_can_send_control(session, SUBSCRIBED_FRAME_MAX))
        return RC_AGAIN;
    topics_remove(&session->topics, topics->names, topics->count);
    session->has_topics = session->topics != NULL;
    send_subscribed(session, has_request_id, request_id);
    return RC_OK;
}
