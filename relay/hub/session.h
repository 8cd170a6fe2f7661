/* session.h: one client connection of a user, over any transport. */
#ifndef CLAIRON_HUB_SESSION_H
#define CLAIRON_HUB_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define SESSION_USER_MAX 255
#define SESSION_TARGET_MAX 255
#define SESSION_AUDIENCE_MAX 63
#define SESSION_GROUPS_MAX 256 /* maximum groups in a token */
#define SESSION_ACKS_MAX 1024  /* maximum ids in an ack */
#define SESSION_TOPICS_MAX 256 /* maximum topics of a connection */
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

struct iovec;
struct shared;

/*
 * Whole WebSocket frames. The last frame of a piece may continue in the next piece. `owners`: for
 * each piece, the owner of its bytes; NULL: they are valid only during the call.
 */
struct session_pieces {
    const struct iovec *at;
    struct shared *const *owners;
    int count;
    int file; /* has the content of the first piece; -1: none */
};

/* How a session writes to its socket. Called from the loop, never during hub_attach. */
struct session_transport {
    bool uses_files; /* of session_pieces */
    /*
     * Writes as many bytes as the socket accepts, and keeps a reference to the unwritten part of a
     * frame. *ret_written: bytes written or kept, always whole frames. Unless RC_OK: the socket is
     * full; session_writable is called when it is writable again.
     */
    enum rc (*send)(void *socket, const struct session_pieces *pieces, size_t *ret_written);
    /*
     * The session failed: send `bye`, close with `code`, then call session_detach. in_ms: the delay
     * for the client's reconnect; -1: none.
     */
    void (*close)(void *socket, int code, const char *reason, int64_t in_ms);
};

/*
 * Returns the id of this connection, as in log messages and in `connected`. Valid as long as the
 * session.
 */
#define SESSION_CONN_SIZE 32
const char *session_conn(const struct session *session);

/* Call it when the socket is writable again. Writes the queued frames. */
void session_writable(struct session *session);

/* The socket accepted bytes of a frame that it had accepted partly. */
void session_accepted(struct session *session);

/*
 * Returns the reason to close this client as too slow; NULL: the client is not too slow. now_us is
 * monotonic.
 */
const char *session_slow(const struct session *session, int64_t now_us);

/* Queues a copy of a control frame (`ping`, `err`, `bye`) ahead of notifications. */
void session_send_control(struct session *session, const char *line, size_t len);

/*
 * Writes the cursor after all sent notifications, for a transport that ends and resumes later.
 * False while notifications are queued.
 */
#define SESSION_POS_MAX 512
bool session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX]);

#endif
