/*
 * push_message.h: what a Web Push shows: its text (`web_push` of a notification), and the body for
 * the push service, a declarative Web Push. Pure.
 */
#ifndef CLAIRON_WIRE_PUSH_MESSAGE_H
#define CLAIRON_WIRE_PUSH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/rc.h"
#include "decoder/protocol/limits.h"
#include "wire/json_doc.h"

#define PUSH_TEXT_MAX LIMIT_WEB_PUSH
#define PUSH_URL_MAX 1024
#define PUSH_TOPIC_TEXT 32

/* NULL: absent. */
struct push_text {
    char *title; /* always present */
    char *body;
    char *url;
    char *icon;
    char *badge;
    char *lang;
    char *dir;
    char *collapse;
    int64_t app_badge; /* -1: absent */
};

/* Parses {"title":"..","body":".."}. RC_BAD: `error` names web_push and its member. */
MUST_CHECK enum rc push_text_parse(const char *json, size_t len, struct push_text *ret_text,
                                   char error[WIRE_ERROR_MAX]);

/* Frees and resets. Accepts a zeroed text. */
void push_text_free(struct push_text *text);

/*
 * Adds `url` (NULL: none), resolved against the application's URL. RC_BAD: it has another origin or
 * scheme. RC_LIMIT: it is over PUSH_URL_MAX bytes.
 */
MUST_CHECK enum rc push_url_resolve(const char *app_url, const char *url, struct buffer *out);

/* A ticket follows it in the fragment of the URL, for browsers that show it without the worker. */
#define PUSH_TICKET_FRAGMENT "#clairon="

struct push_message {
    const struct push_text *text;
    const char *id;   /* of the notification; "": none */
    const char *user; /* of the subscription */
    const char *app_url;
    const char *ticket; /* acknowledges the notification; NULL: none */
};

/*
 * Adds the body, at most WEB_PUSH_PLAIN_MAX bytes: its text, then its title is cut at a character.
 * ret_topic identifies the notification at the push service, or with `collapse` all notifications
 * of the user with the same value. RC_BAD, RC_LIMIT: of push_url_resolve, or the other members
 * leave no room.
 */
MUST_CHECK enum rc push_message_write(const struct push_message *message, struct buffer *out,
                                      char ret_topic[PUSH_TOPIC_TEXT + 1]);

#endif
