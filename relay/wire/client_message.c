/* client_message.c: parses one client message, and rejects every deviation from the protocol. */
#include "wire/client_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/cutoff.h"
#include "wire/frame.h"
#include "wire/json_doc.h"

#define FIELDS_MAX 10
#define REQUEST_ID_MAX 9007199254740991 /* 2^53-1: exact in every client */

/* A message type, its allowed fields, and the function that reads the fields. */
struct client_message_form {
    const char *name;
    enum client_message_kind kind;
    const char *fields[FIELDS_MAX];
    enum rc (*read)(struct json_doc *doc, struct client_message *message,
                    char error[CLIENT_MESSAGE_ERROR_MAX]);
};

/* NULL: absent, or the message is not an object. */
static const struct json_value *
field_of(const struct json_doc *doc, const char *name)
{
    return json_doc_member(doc, json_doc_root(doc), name);
}

static char *
field_copy(struct json_doc *doc, const struct json_value *value)
{
    return memory_text(json_doc_text(doc, value), json_text_len(value));
}

static enum rc
read_token(struct json_doc *doc, struct client_message *message,
           char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *token = field_of(doc, "token");

    if (token == NULL)
        return RC_OK;
    if (!json_is(token, JSON_KIND_TEXT))
        return wire_reject(error, "\"token\" must be a string");
    message->token = field_copy(doc, token);
    message->token_len = json_text_len(token);
    return RC_OK;
}

static enum rc
read_window(struct json_doc *doc, struct client_message *message,
            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *window = field_of(doc, "win");
    int64_t value = json_doc_integer(doc, window);

    if (window == NULL)
        return RC_OK;
    if (!json_is(window, JSON_KIND_INTEGER) || value < 1)
        return wire_reject(error, "\"win\" must be an integer of 1 or more");
    message->window = value < CLIENT_MESSAGE_WINDOW_MAX ? (int)value : CLIENT_MESSAGE_WINDOW_MAX;
    return RC_OK;
}

/*
 * A topic has at most CLIENT_MESSAGE_TOPIC_MAX bytes, no control characters, and '*' only at the
 * end.
 */
static bool
is_topic(struct json_doc *doc, const struct json_value *value)
{
    const char *text = json_doc_text(doc, value);
    size_t len = json_text_len(value);

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f || (text[i] == '*' && i + 1 < len))
            return false;
    }
    return len > 0 && len <= CLIENT_MESSAGE_TOPIC_MAX;
}

static enum rc
read_topics(struct json_doc *doc, struct client_message *message,
            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *topics = field_of(doc, "topics");
    const struct json_value *topic = json_doc_first(doc, topics);
    size_t count = json_doc_count(doc, topics);
    size_t bytes = 0;

    if (!json_is(topics, JSON_KIND_ARRAY) || count == 0 || count > CLIENT_MESSAGE_TOPICS_MAX)
        return wire_reject(error, "\"topics\" must be an array of 1 to %d topics",
                           CLIENT_MESSAGE_TOPICS_MAX);
    message->topics = memory_new(count * sizeof(char *));
    for (size_t i = 0; i < count; i++, topic = json_doc_next(doc, topics, topic)) {
        if (!is_topic(doc, topic))
            return wire_reject(
                error,
                "\"topics\" must contain strings of 1 to %d bytes, with \"*\" only at the "
                "end; the one at index %zu is invalid",
                CLIENT_MESSAGE_TOPIC_MAX, i);
        message->topics[message->topic_count++] = field_copy(doc, topic);
        bytes += json_text_len(topic);
    }
    if (bytes > CLIENT_MESSAGE_TOPICS_BYTES_MAX)
        return wire_reject(error, "\"topics\" must have at most %d bytes together",
                           CLIENT_MESSAGE_TOPICS_BYTES_MAX);
    return RC_OK;
}

static enum rc
read_connect(struct json_doc *doc, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *pos = field_of(doc, "pos"), *ends = field_of(doc, "ends");

    if (pos != NULL && !json_is(pos, JSON_KIND_NULL)) {
        if (!json_is(pos, JSON_KIND_TEXT) || json_text_len(pos) > CLIENT_MESSAGE_POS_MAX)
            return wire_reject(error, "\"pos\" must be a string of at most %d bytes",
                               CLIENT_MESSAGE_POS_MAX);
        if (json_text_len(pos) > 0)
            message->pos = field_copy(doc, pos);
    }
    if (field_of(doc, "topics") != NULL && read_topics(doc, message, error) != RC_OK)
        return RC_BAD;
    if (ends != NULL && !json_is_bool(ends))
        return wire_reject(error, "\"ends\" must be true or false");
    message->wants_ends = json_is(ends, JSON_KIND_TRUE);
    if (read_window(doc, message, error) != RC_OK)
        return RC_BAD;
    return read_token(doc, message, error);
}

static enum rc
read_refresh(struct json_doc *doc, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    if (field_of(doc, "token") == NULL)
        return wire_reject(error, "\"refresh\" needs a \"token\"");
    return read_token(doc, message, error);
}

/* Uses one allocation for the pointers and the strings. */
static char **
new_ids(size_t count)
{
    char **ids = memory_new(count * (sizeof(char *) + FRAME_UUID_TEXT + 1));
    char *texts = (char *)(ids + count);

    for (size_t i = 0; i < count; i++)
        ids[i] = texts + i * (FRAME_UUID_TEXT + 1);
    return ids;
}

static enum rc
read_ack(struct json_doc *doc, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *ids = field_of(doc, "ids");
    const struct json_value *id = json_doc_first(doc, ids);
    size_t count = json_doc_count(doc, ids);

    if (!json_is(ids, JSON_KIND_ARRAY) || count == 0 || count > CLIENT_MESSAGE_ACKS_MAX)
        return wire_reject(error, "\"ids\" must be an array of 1 to %d ids",
                           CLIENT_MESSAGE_ACKS_MAX);
    message->ids = new_ids(count);
    for (size_t i = 0; i < count; i++, id = json_doc_next(doc, ids, id)) {
        if (!json_is(id, JSON_KIND_TEXT) ||
            !frame_uuid_parse(json_doc_text(doc, id), json_text_len(id), message->ids[i]))
            return wire_reject(error, "\"ids\" must contain UUIDs; the one at index %zu is invalid",
                               i);
    }
    message->id_count = count;
    return RC_OK;
}

static enum rc
read_nack(struct json_doc *doc, struct client_message *message,
          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *delay = field_of(doc, "delay");
    int64_t value = json_doc_integer(doc, delay);

    if (delay != NULL && (!json_is(delay, JSON_KIND_INTEGER) || value < 0))
        return wire_reject(error, "\"delay\" must be an integer of 0 or more (ms)");
    message->delay_ms = value < CLIENT_MESSAGE_DELAY_MAX ? value : CLIENT_MESSAGE_DELAY_MAX;
    return read_ack(doc, message, error);
}

static enum rc
read_nothing(struct json_doc *doc, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    (void)doc;
    (void)message;
    (void)error;
    return RC_OK;
}

/* Returns a name of 1 to `max` bytes, or `fallback` if the field is absent. NULL: invalid. */
static char *
name_copy(struct json_doc *doc, const struct json_value *value, size_t max, const char *fallback)
{
    size_t len = json_text_len(value);

    if (value == NULL && fallback != NULL)
        return memory_text(fallback, strlen(fallback));
    return len > 0 && len <= max ? field_copy(doc, value) : NULL;
}

static enum rc
read_snapshot(struct json_doc *doc, struct client_message *message,
              char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *snapshot = field_of(doc, "snapshot");

    message->has_snapshot = snapshot != NULL;
    if (snapshot == NULL || (json_is(snapshot, JSON_KIND_TEXT) &&
                             snapshot_parse(json_doc_text(doc, snapshot), json_text_len(snapshot),
                                            &message->snapshot) == RC_OK))
        return RC_OK;
    return wire_reject(error, "\"snapshot\" must be xmin:xmax:xip,.. of clairon.snapshot()");
}

static enum rc
read_conditions(struct json_doc *doc, struct client_message *message,
                char error[CLIENT_MESSAGE_ERROR_MAX])
{
    for (size_t i = 0; i < ROWS_CONDITIONS_COUNT; i++) {
        const char *name = ROWS_CONDITIONS_FIELDS[i];
        const struct json_value *value = field_of(doc, name);

        if (value == NULL)
            continue;
        if (message->has_snapshot)
            return wire_reject(error, "\"snapshot\" excludes \"%s\"", name);
        if (rows_conditions_read(&message->conditions, name, doc, value, error) != RC_OK)
            return RC_BAD;
    }
    return rows_conditions_check(&message->conditions, error);
}

static enum rc
read_rows(struct json_doc *doc, struct client_message *message,
          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    if (!message->has_request_id)
        return wire_reject(error, "\"rows\" needs an \"r\"");
    message->source = name_copy(doc, field_of(doc, "source"), CLIENT_MESSAGE_SOURCE_MAX, NULL);
    if (message->source == NULL)
        return wire_reject(error, "\"source\" must be a string of 1 to %d bytes",
                           CLIENT_MESSAGE_SOURCE_MAX);
    message->rule = name_copy(doc, field_of(doc, "rule"), CLIENT_MESSAGE_RULE_MAX, "default");
    if (message->rule == NULL)
        return wire_reject(error, "\"rule\" must be a string of 1 to %d bytes",
                           CLIENT_MESSAGE_RULE_MAX);
    if (read_snapshot(doc, message, error) != RC_OK)
        return RC_BAD;
    return read_conditions(doc, message, error);
}

bool
client_message_parse_xid(const char *text, size_t len, uint64_t *ret_xid)
{
    uint64_t xid = 0;

    if (len == 0 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        const unsigned digit = (unsigned)((unsigned char)text[i] - '0');

        if (digit > 9 || xid > (UINT64_MAX - digit) / 10)
            return false;
        xid = xid * 10 + digit;
    }
    *ret_xid = xid;
    return true;
}

static enum rc
read_barrier(struct json_doc *doc, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *x = field_of(doc, "x");

    if (!message->has_request_id)
        return wire_reject(error, "\"barrier\" needs an \"r\"");
    if (x == NULL ||
        (json_is(x, JSON_KIND_TEXT) &&
         client_message_parse_xid(json_doc_text(doc, x), json_text_len(x), &message->xid)))
        return RC_OK;
    return wire_reject(error, "\"x\" must be a transaction id, as a string of digits");
}

static const struct client_message_form FORMS[] = {
    {"connect",
     CLIENT_MESSAGE_CONNECT,
     {"t", "r", "token", "pos", "win", "topics", "ends"},
     read_connect},
    {"ack", CLIENT_MESSAGE_ACK, {"t", "r", "ids"}, read_ack},
    {"nack", CLIENT_MESSAGE_NACK, {"t", "r", "ids", "delay"}, read_nack},
    {"subscribe", CLIENT_MESSAGE_SUBSCRIBE, {"t", "r", "topics"}, read_topics},
    {"unsubscribe", CLIENT_MESSAGE_UNSUBSCRIBE, {"t", "r", "topics"}, read_topics},
    {"refresh", CLIENT_MESSAGE_REFRESH, {"t", "r", "token"}, read_refresh},
    {"rows",
     CLIENT_MESSAGE_ROWS,
     {"t", "r", "source", "rule", "snapshot", "where", "order", "after", "limit", "count"},
     read_rows},
    {"barrier", CLIENT_MESSAGE_BARRIER, {"t", "r", "x"}, read_barrier},
    {"ping", CLIENT_MESSAGE_PING, {"t", "r"}, read_nothing},
    {"pong", CLIENT_MESSAGE_PONG, {"t", "r"}, read_nothing},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Lists the types. */
static enum rc
reject_type(const char *what, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    size_t len = strlen(what);

    memcpy(error, what, len + 1);
    for (size_t i = 0; i < COUNT_OF(FORMS); i++)
        len += (size_t)snprintf(error + len, CLIENT_MESSAGE_ERROR_MAX - len, "%s%s",
                                i == 0                    ? ""
                                : i + 1 < COUNT_OF(FORMS) ? ", "
                                                          : " or ",
                                FORMS[i].name);
    return RC_BAD;
}

static enum rc
find_form(struct json_doc *doc, const struct client_message_form **ret_form,
          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const char *name = json_doc_text(doc, field_of(doc, "t"));

    if (name == NULL)
        return reject_type("\"t\" must be a string: ", error);
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        if (strcmp(name, FORMS[i].name) == 0) {
            *ret_form = &FORMS[i];
            return RC_OK;
        }
    }
    return reject_type("unknown \"t\": it must be ", error);
}

static bool
form_has_field(const struct client_message_form *form, const char *name)
{
    for (size_t i = 0; i < FIELDS_MAX && form->fields[i] != NULL; i++) {
        if (strcmp(form->fields[i], name) == 0)
            return true;
    }
    return false;
}

/* Unknown fields of `connect` are ignored: a client sends what a later relay knows. */
static enum rc
check_fields(const struct client_message_form *form, struct json_doc *doc,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *root = json_doc_root(doc), *field = json_doc_first(doc, root);

    if (form->kind == CLIENT_MESSAGE_CONNECT)
        return RC_OK;
    for (; field != NULL; field = json_doc_next(doc, root, field)) {
        const char *name = json_doc_text(doc, field);

        /* the error message repeats only a short field name */
        if (!form_has_field(form, name))
            return strlen(name) <= 32
                       ? wire_reject(error, "unknown field \"%s\" in \"%s\"", name, form->name)
                       : wire_reject(error, "unknown field in \"%s\"", form->name);
    }
    return RC_OK;
}

static enum rc
read_request_id(struct json_doc *doc, struct client_message *message,
                char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *id = field_of(doc, "r");

    if (id == NULL)
        return RC_OK;
    if (!json_is(id, JSON_KIND_INTEGER) || json_doc_integer(doc, id) > REQUEST_ID_MAX ||
        json_doc_integer(doc, id) < -REQUEST_ID_MAX)
        return wire_reject(error, "\"r\" must be an integer from -(2^53-1) to 2^53-1");
    message->has_request_id = true;
    message->request_id = json_doc_integer(doc, id);
    return RC_OK;
}

/* The connection stays open after JSON that only breaks a limit, and is closed otherwise. */
static enum rc
report_load_error(const struct json_doc_error *load, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    char field[JSON_DOC_PATH_MAX + 2] = "the message";

    if (load->path[0] != '\0')
        snprintf(field, sizeof(field), "\"%s\"", load->path);
    switch (load->fault) {
    case JSON_FAULT_DUPLICATE:
        return wire_reject(error, "duplicate field in %s", field);
    case JSON_FAULT_RANGE:
        return wire_reject(error, "number in %s out of range", field);
    case JSON_FAULT_NUL:
        return wire_reject(error, "NUL character in %s", field);
    case JSON_FAULT_SURROGATE:
        return wire_reject(error, "half of a surrogate pair in %s", field);
    case JSON_FAULT_DEPTH:
        return wire_reject(error, "%s nested too deeply", field);
    case JSON_FAULT_SYNTAX:
        break;
    }
    wire_reject(error, "message is not JSON");
    return RC_CLOSED;
}

static enum rc
read_message(struct json_doc *doc, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct client_message_form *form = NULL;
    enum rc rc;

    if (!json_is(json_doc_root(doc), JSON_KIND_OBJECT))
        return wire_reject(error, "message must be a JSON object");
    rc = read_request_id(doc, message, error);
    if (rc == RC_OK)
        rc = find_form(doc, &form, error);
    if (rc == RC_OK)
        rc = check_fields(form, doc, error);
    if (rc != RC_OK)
        return rc;
    message->kind = form->kind;
    return form->read(doc, message, error);
}

/*
 * Reads {"t":"ack","ids":["..",..]} as JSON.stringify() writes it. False: anything else, which may
 * be a valid message.
 */
static bool
read_plain_ack(const char *line, size_t len, struct client_message *ret_message)
{
    static const char START[] = "{\"t\":" /* a frame of clients */ "\"ack\",\"ids\":[";
    const size_t start = sizeof(START) - 1, item = FRAME_UUID_TEXT + 3; /* "id", */
    const size_t count = len > start ? (len - start) / item : 0;
    struct client_message message = {.kind = CLIENT_MESSAGE_ACK, .id_count = count};
    const char *at = line + start;

    if (count == 0 || count > CLIENT_MESSAGE_ACKS_MAX || len != start + count * item + 1 ||
        memcmp(line, START, start) != 0 || line[len - 1] != '}')
        return false;
    message.ids = new_ids(count);
    for (size_t i = 0; i < count; i++, at += item) {
        if (at[0] != '"' || !frame_uuid_parse(at + 1, FRAME_UUID_TEXT, message.ids[i]) ||
            at[item - 2] != '"' || at[item - 1] != (i + 1 < count ? ',' : ']')) {
            free(message.ids);
            return false;
        }
    }
    *ret_message = message;
    return true;
}

enum rc
client_message_parse(const char *line, size_t len, struct client_message *ret_message,
                     char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct client_message message = {0};
    struct json_doc doc;
    struct json_doc_error load;
    enum rc rc;

    if (read_plain_ack(line, len, ret_message))
        return RC_OK;
    rc = json_doc_parse(&doc, line, len, true, &load);
    if (rc == RC_OK)
        rc = read_message(&doc, &message, error);
    else if (read_request_id(&doc, &message, error) != RC_CLOSED) /* its value is optional */
        rc = report_load_error(&load, error);
    json_doc_free(&doc);
    if (rc != RC_OK) {
        bool has_request_id = message.has_request_id;
        int64_t request_id = message.request_id;

        client_message_free(&message);
        message.has_request_id = has_request_id;
        message.request_id = request_id;
    }
    *ret_message = message;
    return rc;
}

/*
 * Parses a body: one JSON object with this field and optionally `other` (may be NULL). The caller
 * frees the document in any case. NULL: invalid; otherwise the value of `field`.
 */
static const struct json_value *
load_body(struct json_doc *doc, const char *text, size_t len, const char *field, const char *other)
{
    struct json_doc_error load;
    size_t others;

    if (json_doc_parse(doc, text != NULL ? text : "", len, false, &load) != RC_OK)
        return NULL;
    others = other != NULL && field_of(doc, other) != NULL ? 1 : 0;
    return json_doc_count(doc, json_doc_root(doc)) == 1 + others ? field_of(doc, field) : NULL;
}

/* Frees the document, and the message after an error. */
static enum rc
finish_body(struct json_doc *doc, enum rc rc, struct client_message *message,
            struct client_message *ret_message)
{
    json_doc_free(doc);
    if (rc == RC_OK)
        *ret_message = *message;
    else
        client_message_free(message);
    return rc;
}

enum rc
client_message_parse_ack(const char *text, size_t len, struct client_message *ret_message,
                         char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct client_message message = {.kind = CLIENT_MESSAGE_ACK};
    struct json_doc doc;
    enum rc rc = load_body(&doc, text, len, "ids", NULL) != NULL
                     ? read_ack(&doc, &message, error)
                     : wire_reject(error, "body must be {\"ids\":[..]}");

    return finish_body(&doc, rc, &message, ret_message);
}

bool
client_message_parse_push_ticket(const char *text, size_t len,
                                 char ret_ticket[PUSH_TICKET_TEXT + 1])
{
    struct json_doc doc;
    const struct json_value *value = load_body(&doc, text, len, "ticket", NULL);
    const char *ticket = json_doc_text(&doc, value);
    bool is_good = ticket != NULL && strlen(ticket) == PUSH_TICKET_TEXT &&
                   strspn(ticket, "0123456789abcdef") == PUSH_TICKET_TEXT;

    if (is_good)
        memcpy(ret_ticket, ticket, PUSH_TICKET_TEXT + 1);
    json_doc_free(&doc);
    return is_good;
}

enum rc
client_message_parse_nack(const char *text, size_t len, struct client_message *ret_message,
                          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct client_message message = {.kind = CLIENT_MESSAGE_NACK};
    struct json_doc doc;
    enum rc rc = load_body(&doc, text, len, "ids", "delay") != NULL
                     ? read_nack(&doc, &message, error)
                     : wire_reject(error, "body must be {\"ids\":[..],\"delay\":0}");

    return finish_body(&doc, rc, &message, ret_message);
}

enum rc
client_message_parse_switch(const char *text, size_t len, bool *ret_on,
                            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct json_doc doc;
    const struct json_value *on = load_body(&doc, text, len, "on", NULL);
    bool is_good = json_is_bool(on);

    if (is_good)
        *ret_on = json_is(on, JSON_KIND_TRUE);
    json_doc_free(&doc);
    return is_good ? RC_OK : wire_reject(error, "body must be {\"on\":true} or {\"on\":false}");
}

enum rc
client_message_parse_entry(const char *text, size_t len, char ret_entry[CLIENT_MESSAGE_ENTRY_MAX],
                           char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct json_doc doc;
    const struct json_value *entry = load_body(&doc, text, len, "entry", NULL);
    const char *id = json_doc_text(&doc, entry);
    bool is_good = id != NULL && json_text_len(entry) < CLIENT_MESSAGE_ENTRY_MAX;

    if (is_good)
        snprintf(ret_entry, CLIENT_MESSAGE_ENTRY_MAX, "%s", id);
    json_doc_free(&doc);
    return is_good ? RC_OK : wire_reject(error, "body must be {\"entry\":\"..\"}");
}

enum rc
client_message_parse_cutoff(const char *text, size_t len, int64_t *ret_until_s, char **ret_jti,
                            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct json_value *until, *jti;
    struct json_doc_error load;
    int64_t until_s = 0;
    struct json_doc doc;
    bool is_good;

    if (len == 0)
        text = "{}", len = 2;
    is_good = json_doc_parse(&doc, text, len, false, &load) == RC_OK &&
              json_is(json_doc_root(&doc), JSON_KIND_OBJECT);
    until = is_good ? field_of(&doc, "until") : NULL;
    jti = is_good ? field_of(&doc, "jti") : NULL;
    is_good = is_good &&
              json_doc_count(&doc, json_doc_root(&doc)) ==
                  (size_t)(until != NULL) + (size_t)(jti != NULL) &&
              (until == NULL || (json_is(until, JSON_KIND_TEXT) &&
                                 cutoff_read_time(json_doc_text(&doc, until), &until_s))) &&
              (jti == NULL || (json_is(jti, JSON_KIND_TEXT) && json_text_len(jti) > 0));
    if (is_good) {
        *ret_until_s = until_s;
        *ret_jti = jti != NULL ? field_copy(&doc, jti) : NULL;
    }
    json_doc_free(&doc);
    return is_good ? RC_OK
                   : wire_reject(error, "body must be {\"until\":\"<RFC 3339>\",\"jti\":\"..\"}");
}

void
client_message_free(struct client_message *message)
{
    free(message->token);
    free(message->pos);
    free(message->ids);
    for (size_t i = 0; i < message->topic_count; i++)
        free(message->topics[i]);
    free(message->topics);
    free(message->source);
    free(message->rule);
    rows_conditions_free(&message->conditions);
    snapshot_free(&message->snapshot);
    *message = (struct client_message){0};
}
