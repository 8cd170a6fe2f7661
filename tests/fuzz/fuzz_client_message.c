/*
 * fuzz_client_message.c: checks that no client message breaks the parser, and that acknowledgements
 * that are not read as JSON have the same meaning as JSON.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "wire/client_message.h"

static size_t
len_of(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static void
check_conditions(const struct rows_conditions *conditions)
{
    if (len_of(conditions->where) + len_of(conditions->order) + len_of(conditions->after) >
            ROWS_CONDITIONS_BYTES_MAX ||
        conditions->limit < 0 ||
        (conditions->is_count && (conditions->order != NULL || conditions->limit != 0)))
        __builtin_trap();
}

static void
check(const struct client_message *message)
{
    if (message->id_count > CLIENT_MESSAGE_ACKS_MAX || message->window < 0 ||
        message->window > CLIENT_MESSAGE_WINDOW_MAX)
        __builtin_trap();
    for (size_t i = 0; i < message->id_count; i++) {
        if (strlen(message->ids[i]) != 36)
            __builtin_trap();
    }
    for (size_t i = 0; i < message->topic_count; i++) {
        size_t len = strlen(message->topics[i]);

        if (len == 0 || len > CLIENT_MESSAGE_TOPIC_MAX)
            __builtin_trap();
    }
    if (message->kind == CLIENT_MESSAGE_ROWS &&
        (!message->has_request_id || strlen(message->source) > CLIENT_MESSAGE_SOURCE_MAX ||
         strlen(message->rule) > CLIENT_MESSAGE_RULE_MAX))
        __builtin_trap();
    check_conditions(&message->conditions);
    if (message->kind == CLIENT_MESSAGE_REFRESH && message->token == NULL)
        __builtin_trap();
}

/* With a blank at the end, a message has the same meaning, and is read as JSON. */
static void
compare_with_json(const uint8_t *data, size_t size, const struct client_message *message)
{
    char error[CLIENT_MESSAGE_ERROR_MAX] = "";
    struct client_message other;
    char *text = malloc(size + 1);

    if (text == NULL)
        abort();
    memcpy(text, data, size);
    text[size] = ' ';
    if (client_message_parse(text, size + 1, &other, error) != RC_OK ||
        other.kind != message->kind || other.id_count != message->id_count ||
        other.has_request_id != message->has_request_id)
        __builtin_trap();
    for (size_t i = 0; i < other.id_count; i++) {
        if (strcmp(other.ids[i], message->ids[i]) != 0)
            __builtin_trap();
    }
    client_message_free(&other);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[CLIENT_MESSAGE_ERROR_MAX] = "";
    struct client_message message;
    enum rc rc = client_message_parse((const char *)data, size, &message, error);

    if (rc == RC_OK)
        check(&message);
    else if (error[0] == '\0' || message.token != NULL || message.ids != NULL ||
             message.topics != NULL || message.source != NULL || message.snapshot.running != NULL ||
             rows_conditions_exist(&message.conditions))
        __builtin_trap(); /* rejected without an error message, or without freeing memory */
    if (rc == RC_OK)
        compare_with_json(data, size, &message);
    client_message_free(&message);
    return 0;
}
