/* session.h: one connection of one user: what it is owed, what it was handed, what it acked. */
#ifndef CLAIRON_HUB_SESSION_SESSION_H
#define CLAIRON_HUB_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define SESSION_USER_MAX 255
#define SESSION_TARGET_MAX 255
#define SESSION_AUDIENCE_MAX 63
#define SESSION_GROUPS_MAX 256 /* in one token */
#define SESSION_ACKS_MAX 1024  /* ids in one ack */
#define SESSION_TOPICS_MAX 256 /* of one connection */
#define SESSION_TOPICS_BYTES_MAX 8192

struct hub;
struct session;

struct session_group {
    const char *audience; /* "STRUCTURE" */
    const char *target;   /* "s1" */
};

/* Exact topics, or with a '*' at their end; checked by the caller. */
struct session_topics {
    const char *const *names;
    size_t count;
};

/* What the transport knows when a client has shown a good token. Copied by hub_attach. */
struct session_request {
    const char *user;
    const struct session_group *groups;
    size_t group_count;
    const char *pos;     /* NULL: from now on */
    int window;          /* wanted; 0: as configured */
    int64_t expires_s;   /* the token's exp, Unix seconds */
    bool has_request_id; /* the client's "r" */
    int64_t request_id;
    struct session_topics topics; /* none: everything */
    bool is_poll; /* with a pos: what was shown and has time left for its ack is not shown again */
};

struct iovec;

/* How a session speaks to its socket. Called from the loop, never from inside hub_attach. */
struct session_transport {
    /*
     * Writes these bytes, whole WebSocket frames each, as far as the socket takes them, and keeps
     * the rest of a frame of which it took a part. *ret_taken: bytes done with, a whole number of
     * frames. Anything but RC_OK: it is full, session_writable follows once it is not.
     */
    enum rc (*send)(void *socket, const struct iovec *pieces, int count, size_t *ret_taken);
    /* The same for one piece that `file` holds too, from its beginning. NULL: send does it. */
    enum rc (*send_file)(void *socket, const struct iovec *piece, int file, size_t *ret_taken);
    /* The session cannot go on: say bye, close with `code`, then session_detach. */
    void (*close)(void *socket, int code, const char *reason);
};

/*
 * Begins a session: it looks up the user's memberships and what waits for them,
 * says `connected`, sends what was missed since pos, then what comes. While the
 * store is away it waits. Never NULL. End it with session_detach.
 */
struct session *hub_attach(struct hub *hub, const struct session_request *request,
                           const struct session_transport *transport, void *socket);

/* The socket is gone. Frees the session (later, if a reply of the store is under way). */
void session_detach(struct session *session);

/* The address of this connection in logs and in `connected`: zero-terminated, lives with it. */
const char *session_name(const struct session *session);

/* The socket takes bytes again: sends what waits. */
void session_writable(struct session *session);

/* Why this client is too slow to be kept, as a sentence; NULL: it is not. now_us is monotonic. */
const char *session_slow(const struct session *session, int64_t now_us);

/* Queues a line of the transport's own (`ping`, `err`, `bye`) ahead of the messages. Copies. */
void session_send_control(struct session *session, const char *line, size_t len);

/*
 * The position after all that was sent, for a transport that ends here and goes on later. False
 * while there is more to send.
 */
#define SESSION_POS_MAX 512
bool session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX]);

/*
 * Narrows what is shown to these topics and those asked for before; says `subscribed` with all of
 * them. Messages on their way still come. RC_LIMIT: too many; nothing changed.
 */
MUST_CHECK enum rc session_subscribe(struct session *session, const struct session_topics *topics,
                                     bool has_request_id, int64_t request_id);

/* Takes topics back, as they were asked for; says `subscribed` with what is left. */
void session_unsubscribe(struct session *session, const struct session_topics *topics,
                         bool has_request_id, int64_t request_id);

/*
 * The user acknowledged: ids are UUID texts in lower case, as client_message.h gives; count <=
 * SESSION_ACKS_MAX.
 */
void session_ack(struct session *session, const char *const *ids, size_t count);

/* Likewise without a connection: all sessions of the user are told. */
void hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count);

/* The user asks to be shown these again, in delay_ms at the earliest. */
void session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms);

/* Likewise without a connection. RC_AGAIN: the store is away, nothing was asked. */
MUST_CHECK enum rc hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count,
                            int64_t delay_ms);

#endif
