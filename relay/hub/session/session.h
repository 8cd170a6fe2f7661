/* session.h: one client connection of a user, over any transport. */
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

/* Exact topics, or prefixes with a trailing '*'. The caller validates them. */
struct session_topics {
    const char *const *names;
    size_t count;
};

/* A client whose token is valid. Copied by hub_attach. */
struct session_request {
    const char *user;
    const struct session_group *groups;
    size_t group_count;
    const char *pos;     /* NULL: only new notifications */
    int window;          /* requested by the client; 0: the configured one */
    int64_t expires_s;   /* the token's exp, Unix seconds */
    bool has_request_id; /* the client's "r" */
    int64_t request_id;
    struct session_topics topics; /* empty: all */
    bool is_poll; /* with pos: notifications sent before are not repeated until their ack timeout */
};

struct iovec;

/* How a session writes to its socket. Called from the loop, never during hub_attach. */
struct session_transport {
    /*
     * Writes as many bytes as the socket accepts. Each piece is a whole WebSocket frame; the rest
     * of a frame that was cut is buffered. *ret_written: bytes written or buffered, always whole
     * frames. Not RC_OK: the socket is full; session_writable is called when it is writable again.
     */
    enum rc (*send)(void *socket, const struct iovec *pieces, int count, size_t *ret_written);
    /* The same for one piece that is also the content of `file`. NULL: not supported, use send. */
    enum rc (*send_file)(void *socket, const struct iovec *piece, int file, size_t *ret_written);
    /* The session failed: send `bye`, close with `code`, then call session_detach. */
    void (*close)(void *socket, int code, const char *reason);
};

/*
 * Begins a session. It reads the user's memberships, sends `connected`, then the inbox, then the
 * notifications after pos, then new ones. It waits while the store is down. Never NULL. End it with
 * session_detach.
 */
struct session *hub_attach(struct hub *hub, const struct session_request *request,
                           const struct session_transport *transport, void *socket);

/* The socket is closed. Frees the session, now or when the last pending reply arrives. */
void session_detach(struct session *session);

/* The id of this connection, as in logs and in `connected`. Lives as long as the session. */
#define SESSION_CONN_SIZE 32
const char *session_conn(const struct session *session);

/* The socket is writable again: writes what is queued. */
void session_writable(struct session *session);

/* Why this client is too slow, as a sentence; NULL: it is not. now_us is monotonic. */
const char *session_slow(const struct session *session, int64_t now_us);

/* Queues a control frame (`ping`, `err`, `bye`) ahead of notifications. Copies. */
void session_send_control(struct session *session, const char *line, size_t len);

/*
 * The position after all that was sent, for a transport that ends and resumes later. False while
 * more is queued.
 */
#define SESSION_POS_MAX 512
bool session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX]);

/*
 * The user acknowledged notifications. `ids` are UUID texts in lower case, as client_message.h
 * returns them; count <= SESSION_ACKS_MAX.
 */
void session_ack(struct session *session, const char *const *ids, size_t count);

/* The same without a connection: all sessions of the user receive `acked`. */
void hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count);

/* The user rejected these: they are retried, in delay_ms at the earliest. */
void session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms);

/* The same without a connection. RC_AGAIN: the store is down, nothing was sent. */
MUST_CHECK enum rc hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count,
                            int64_t delay_ms);

#endif
