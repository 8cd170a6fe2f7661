/* client_message.c: parses one client message, and rejects every deviation from the protocol. */
#include "wire/client_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "wire/frame.h"

#define FIELDS_MAX 6
#define REQUEST_ID_MAX 9007199254740991 /* 2^53-1: exact in every client */

/* A message type, its allowed fields, and the function that reads the fields. */
struct client_message_form {
    const char *name;
    enum client_message_kind kind;
    const char *fields[FIELDS_MAX];
    enum rc (*read)(const json_t *root, struct client_message *message,
                    char error[CLIENT_MESSAGE_ERROR_MAX]);
};

static enum rc PRINTF_LIKE(2, 3)
    reject_message(char error[CLIENT_MESSAGE_ERROR_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, CLIENT_MESSAGE_ERROR_MAX, format, args);
    va_end(args);
    return RC_BAD;
}

static char *
field_copy(const json_t *value)
{
    return memory_text(json_string_value(value), json_string_length(value));
}

static enum rc
read_token(const json_t *root, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *token = json_object_get(root, "token");

    if (token == NULL)
        return RC_OK;
    if (!json_is_string(token))
        return reject_message(error, "\"token\" must be a string");
    message->token = field_copy(token);
    message->token_len = json_string_length(token);
    return RC_OK;
}

static enum rc
read_window(const json_t *root, struct client_message *message,
            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *window = json_object_get(root, "win");
    json_int_t value = json_integer_value(window);

    if (window == NULL)
        return RC_OK;
    if (!json_is_integer(window) || value < 1)
        return reject_message(error, "\"win\" must be an integer of 1 or more");
    message->window = value < CLIENT_MESSAGE_WINDOW_MAX ? (int)value : CLIENT_MESSAGE_WINDOW_MAX;
    return RC_OK;
}

/*
 * A topic has at most CLIENT_MESSAGE_TOPIC_MAX bytes, no control characters, and '*' only at the
 * end.
 */
static bool
is_topic(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = json_is_string(value) ? json_string_length(value) : 0;

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f || (text[i] == '*' && i + 1 < len))
            return false;
    }
    return len > 0 && len <= CLIENT_MESSAGE_TOPIC_MAX;
}

static enum rc
read_topics(const json_t *root, struct client_message *message,
            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *topics = json_object_get(root, "topics");
    size_t count = json_array_size(topics);
    size_t bytes = 0;

    if (!json_is_array(topics) || count == 0 || count > CLIENT_MESSAGE_TOPICS_MAX)
        return reject_message(error, "\"topics\" must be an array of 1 to %d topics",
                              CLIENT_MESSAGE_TOPICS_MAX);
    message->topics = memory_new(count * sizeof(char *));
    for (size_t i = 0; i < count; i++) {
        const json_t *topic = json_array_get(topics, i);

        if (!is_topic(topic))
            return reject_message(
                error,
                "\"topics\" must contain strings of 1 to %d bytes, with \"*\" only at the "
                "end; the one at index %zu is invalid",
                CLIENT_MESSAGE_TOPIC_MAX, i);
        message->topics[message->topic_count++] = field_copy(topic);
        bytes += json_string_length(topic);
    }
    if (bytes > CLIENT_MESSAGE_TOPICS_BYTES_MAX)
        return reject_message(error, "\"topics\" must have at most %d bytes together",
                              CLIENT_MESSAGE_TOPICS_BYTES_MAX);
    return RC_OK;
}

static enum rc
read_connect(const json_t *root, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *pos = json_object_get(root, "pos");

    if (pos != NULL && !json_is_null(pos)) {
        if (!json_is_string(pos) || json_string_length(pos) > CLIENT_MESSAGE_POS_MAX)
            return reject_message(error, "\"pos\" must be a string of at most %d bytes",
                                  CLIENT_MESSAGE_POS_MAX);
        if (json_string_length(pos) > 0)
            message->pos = field_copy(pos);
    }
    if (json_object_get(root, "topics") != NULL && read_topics(root, message, error) != RC_OK)
        return RC_BAD;
    if (read_window(root, message, error) != RC_OK)
        return RC_BAD;
    return read_token(root, message, error);
}

static enum rc
read_refresh(const json_t *root, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    if (json_object_get(root, "token") == NULL)
        return reject_message(error, "\"refresh\" needs a \"token\"");
    return read_token(root, message, error);
}

/* Uses one allocation for the pointers and the strings. */
static enum rc
read_ack(const json_t *root, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *ids = json_object_get(root, "ids");
    size_t count = json_array_size(ids);
    char *texts;

    if (!json_is_array(ids) || count == 0 || count > CLIENT_MESSAGE_ACKS_MAX)
        return reject_message(error, "\"ids\" must be an array of 1 to %d ids",
                              CLIENT_MESSAGE_ACKS_MAX);
    message->ids = memory_new(count * (sizeof(char *) + FRAME_UUID_TEXT + 1));
    texts = (char *)(message->ids + count);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(ids, i);

        message->ids[i] = texts + i * (FRAME_UUID_TEXT + 1);
        if (!json_is_string(id) ||
            !frame_uuid_parse(json_string_value(id), json_string_length(id), message->ids[i]))
            return reject_message(error,
                                  "\"ids\" must contain UUIDs; the one at index %zu is invalid", i);
    }
    message->id_count = count;
    return RC_OK;
}

static enum rc
read_nack(const json_t *root, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *delay = json_object_get(root, "delay");
    json_int_t value = json_integer_value(delay);

    if (delay != NULL && (!json_is_integer(delay) || value < 0))
        return reject_message(error, "\"delay\" must be an integer of 0 or more (ms)");
    message->delay_ms = value < CLIENT_MESSAGE_DELAY_MAX ? value : CLIENT_MESSAGE_DELAY_MAX;
    return read_ack(root, message, error);
}

static enum rc
read_nothing(const json_t *root, struct client_message *message,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    (void)root;
    (void)message;
    (void)error;
    return RC_OK;
}

/* Returns a name of 1 to `max` bytes, or `fallback` if the field is absent. NULL: invalid. */
static char *
name_copy(const json_t *value, size_t max, const char *fallback)
{
    size_t len = json_string_length(value); /* 0: not a string */

    if (value == NULL && fallback != NULL)
        return memory_text(fallback, strlen(fallback));
    return len > 0 && len <= max ? field_copy(value) : NULL;
}

static enum rc
read_snapshot(const json_t *root, struct client_message *message,
              char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *snapshot = json_object_get(root, "snapshot");

    message->has_snapshot = snapshot != NULL;
    if (snapshot == NULL ||
        (json_is_string(snapshot) &&
         snapshot_parse(json_string_value(snapshot), json_string_length(snapshot),
                        &message->snapshot) == RC_OK))
        return RC_OK;
    return reject_message(error, "\"snapshot\" must be xmin:xmax:xip,.. of clairon.snapshot()");
}

static enum rc
read_rows(const json_t *root, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    if (!message->has_request_id)
        return reject_message(error, "\"rows\" needs an \"r\"");
    message->source = name_copy(json_object_get(root, "source"), CLIENT_MESSAGE_SOURCE_MAX, NULL);
    if (message->source == NULL)
        return reject_message(error, "\"source\" must be a string of 1 to %d bytes",
                              CLIENT_MESSAGE_SOURCE_MAX);
    message->rule = name_copy(json_object_get(root, "rule"), CLIENT_MESSAGE_RULE_MAX, "default");
    if (message->rule == NULL)
        return reject_message(error, "\"rule\" must be a string of 1 to %d bytes",
                              CLIENT_MESSAGE_RULE_MAX);
    return read_snapshot(root, message, error);
}

static const struct client_message_form FORMS[] = {
    {"connect", CLIENT_MESSAGE_CONNECT, {"t", "r", "token", "pos", "win", "topics"}, read_connect},
    {"ack", CLIENT_MESSAGE_ACK, {"t", "r", "ids"}, read_ack},
    {"nack", CLIENT_MESSAGE_NACK, {"t", "r", "ids", "delay"}, read_nack},
    {"subscribe", CLIENT_MESSAGE_SUBSCRIBE, {"t", "r", "topics"}, read_topics},
    {"unsubscribe", CLIENT_MESSAGE_UNSUBSCRIBE, {"t", "r", "topics"}, read_topics},
    {"refresh", CLIENT_MESSAGE_REFRESH, {"t", "r", "token"}, read_refresh},
    {"rows", CLIENT_MESSAGE_ROWS, {"t", "r", "source", "rule", "snapshot"}, read_rows},
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
find_form(const json_t *root, const struct client_message_form **ret_form,
          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const char *name = json_string_value(json_object_get(root, "t"));

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

static enum rc
check_fields(const struct client_message_form *form, json_t *root,
             char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const char *name;
    json_t *value;

    json_object_foreach(root, name, value)
    {
        /* the error message repeats only a short field name */
        if (!form_has_field(form, name))
            return strlen(name) <= 32
                       ? reject_message(error, "unknown field \"%s\" in \"%s\"", name, form->name)
                       : reject_message(error, "unknown field in \"%s\"", form->name);
    }
    return RC_OK;
}

static enum rc
read_request_id(const json_t *root, struct client_message *message,
                char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const json_t *id = json_object_get(root, "r");

    if (id == NULL)
        return RC_OK;
    if (!json_is_integer(id) || json_integer_value(id) > REQUEST_ID_MAX ||
        json_integer_value(id) < -REQUEST_ID_MAX)
        return reject_message(error, "\"r\" must be an integer from -(2^53-1) to 2^53-1");
    message->has_request_id = true;
    message->request_id = json_integer_value(id);
    return RC_OK;
}

/* The connection stays open after valid JSON that jansson rejects, and is closed otherwise. */
static enum rc
report_load_error(const json_error_t *load, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    switch (json_error_code(load)) {
    case json_error_duplicate_key:
        return reject_message(error, "duplicate field in the message");
    case json_error_numeric_overflow:
        return reject_message(error, "number in the message out of range");
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return reject_message(error, "NUL character in a string of the message");
    case json_error_stack_overflow:
        return reject_message(error, "message nested too deeply");
    default:
        reject_message(error, "message is not JSON");
        return RC_CLOSED;
    }
}

static enum rc
read_message(json_t *root, struct client_message *message, char error[CLIENT_MESSAGE_ERROR_MAX])
{
    const struct client_message_form *form = NULL;
    enum rc rc;

    if (!json_is_object(root))
        return reject_message(error, "message must be a JSON object");
    rc = read_request_id(root, message, error);
    if (rc == RC_OK)
        rc = find_form(root, &form, error);
    if (rc == RC_OK)
        rc = check_fields(form, root, error);
    if (rc != RC_OK)
        return rc;
    message->kind = form->kind;
    return form->read(root, message, error);
}

enum rc
client_message_parse(const char *line, size_t len, struct client_message *ret_message,
                     char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct client_message message = {0};
    json_error_t load;
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &load);
    enum rc rc;

    if (root == NULL) {
        *ret_message = message;
        return report_load_error(&load, error);
    }
    rc = read_message(root, &message, error);
    json_decref(root);
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
 * Parses a body: one JSON object with this field and optionally `other` (may be NULL). NULL:
 * invalid.
 */
static json_t *
load_body(const char *text, size_t len, const char *field, const char *other)
{
    json_t *root = text != NULL ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    size_t others = other != NULL && json_object_get(root, other) != NULL ? 1 : 0;

    if (json_is_object(root) && json_object_size(root) == 1 + others &&
        json_object_get(root, field) != NULL)
        return root;
    json_decref(root);
    return NULL;
}

/* Frees `root` (may be NULL), and the message after an error. */
static enum rc
finish_body(json_t *root, enum rc rc, struct client_message *message,
            struct client_message *ret_message)
{
    json_decref(root);
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
    json_t *root = load_body(text, len, "ids", NULL);
    enum rc rc = root != NULL ? read_ack(root, &message, error)
                              : reject_message(error, "body must be {\"ids\":[..]}");

    return finish_body(root, rc, &message, ret_message);
}

bool
client_message_parse_push_ticket(const char *text, size_t len,
                                 char ret_ticket[PUSH_TICKET_TEXT + 1])
{
    json_t *root = load_body(text, len, "ticket", NULL);
    const char *ticket = json_string_value(json_object_get(root, "ticket"));
    bool is_good = ticket != NULL && strlen(ticket) == PUSH_TICKET_TEXT &&
                   strspn(ticket, "0123456789abcdef") == PUSH_TICKET_TEXT;

    if (is_good)
        memcpy(ret_ticket, ticket, PUSH_TICKET_TEXT + 1);
    json_decref(root);
    return is_good;
}

enum rc
client_message_parse_nack(const char *text, size_t len, struct client_message *ret_message,
                          char error[CLIENT_MESSAGE_ERROR_MAX])
{
    struct client_message message = {.kind = CLIENT_MESSAGE_NACK};
    json_t *root = load_body(text, len, "ids", "delay");
    enum rc rc = root != NULL ? read_nack(root, &message, error)
                              : reject_message(error, "body must be {\"ids\":[..],\"delay\":0}");

    return finish_body(root, rc, &message, ret_message);
}

enum rc
client_message_parse_switch(const char *text, size_t len, bool *ret_on,
                            char error[CLIENT_MESSAGE_ERROR_MAX])
{
    json_t *root = load_body(text, len, "on", NULL);
    const json_t *on = json_object_get(root, "on");
    bool is_good = json_is_boolean(on);

    if (is_good)
        *ret_on = json_is_true(on);
    json_decref(root);
    return is_good ? RC_OK : reject_message(error, "body must be {\"on\":true} or {\"on\":false}");
}

enum rc
client_message_parse_entry(const char *text, size_t len, char ret_entry[CLIENT_MESSAGE_ENTRY_MAX],
                           char error[CLIENT_MESSAGE_ERROR_MAX])
{
    json_t *root = load_body(text, len, "entry", NULL);
    const json_t *entry = json_object_get(root, "entry");
    bool is_good = json_is_string(entry) && json_string_length(entry) < CLIENT_MESSAGE_ENTRY_MAX;

    if (is_good)
        snprintf(ret_entry, CLIENT_MESSAGE_ENTRY_MAX, "%s", json_string_value(entry));
    json_decref(root);
    return is_good ? RC_OK : reject_message(error, "body must be {\"entry\":\"..\"}");
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
    snapshot_free(&message->snapshot);
    *message = (struct client_message){0};
}
