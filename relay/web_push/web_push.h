/*
 * web_push.h: sends encrypted bodies to push services (RFC 8030), and the Web Pushes of
 * notifications to absent users, from the queue in the store.
 */
#ifndef CLAIRON_WEB_PUSH_WEB_PUSH_H
#define CLAIRON_WEB_PUSH_WEB_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct config;
struct ev_loop;
struct stats;
struct store;
struct web_push_queue;
struct web_push_request;
struct web_push_sender;

/* ---- sender.c */

/* Requests of one item of webpush.origins, waiting ones included. */
#define WEB_PUSH_SERVICE_MAX 256

#define WEB_PUSH_REASON_MAX 256

/* The last failure of a push service, for the console, in memory that the workers share. */
struct web_push_report {
    bool is_open;
    int64_t failed_ms;                /* Unix time; 0: none */
    char reason[WEB_PUSH_REASON_MAX]; /* with the origin of the push service */
};

/*
 * One for each process, whose limits its users share. Needs [webpush] vapid_key_file. The arguments
 * must outlive it.
 */
struct web_push_sender *web_push_sender_open(struct ev_loop *loop, const struct config *config,
                                             struct store *store, struct stats *stats,
                                             struct web_push_report *report);
void web_push_sender_close(struct web_push_sender *sender); /* accepts NULL; ends all requests */

/* What a push service shows, or hands to the service worker. */
struct web_push_content {
    const char *body; /* at most WEB_PUSH_PLAIN_MAX bytes */
    size_t len;
    const char *topic;   /* a later one with the same topic replaces it; up to 32 of base64url */
    const char *urgency; /* "high", "normal" or "low" */
    int64_t ttl_s;       /* how long the push service keeps it for an absent browser */
};

enum web_push_outcome {
    WEB_PUSH_SENT,
    WEB_PUSH_REMOVED,  /* the subscription had ended: it is removed from the store */
    WEB_PUSH_REJECTED, /* a repetition would be refused too */
    WEB_PUSH_FAILED    /* a repetition after retry_ms may succeed */
};

/* Valid during the callback. */
struct web_push_result {
    enum web_push_outcome outcome;
    int status;        /* of the response; 0: none */
    int64_t retry_ms;  /* requested by the service; 0: not */
    const char *error; /* "" with a status */
};

typedef void web_push_done(void *ctx, const struct web_push_result *result);

/*
 * Sends to a subscription, as it is in the store (struct store_subscription), of `user`. With two
 * VAPID keys, one that the service rejects is replaced by the other. The request waits for a free
 * connection to its service, then its timeout starts. Calls back once, from the loop, unless
 * web_push_cancel is called first; both free the request. The arguments are used only during the
 * call. RC_BAD: the subscription is invalid, or OpenSSL failed. RC_LIMIT: its service has
 * WEB_PUSH_SERVICE_MAX requests. Neither calls back.
 */
MUST_CHECK enum rc web_push_send(struct web_push_sender *sender, const char *user,
                                 const char *subscription, const struct web_push_content *content,
                                 web_push_done *done, void *ctx,
                                 struct web_push_request **ret_request);
void web_push_cancel(struct web_push_request *request); /* accepts NULL */

/* ---- queue.c */

/* The arguments must outlive it. */
struct web_push_queue *web_push_queue_open(struct ev_loop *loop, const struct config *config,
                                           struct store *store, struct stats *stats,
                                           struct web_push_sender *sender);
/* Takes nothing more out of the queue. What is under way continues. Accepts NULL. */
void web_push_queue_stop(struct web_push_queue *queue);
void web_push_queue_close(struct web_push_queue *queue); /* accepts NULL */

#endif
