/* gate.h: the sockets that clients connect to: WebSocket and HTTP. */
#ifndef CLAIRON_GATE_GATE_H
#define CLAIRON_GATE_GATE_H

#include <stdbool.h>

#include "base/config.h"
#include "base/stats.h"

#define GATE_CERT_WARN_DAYS 14        /* a certificate that ends so soon is spoken of */
#define GATE_DESCRIPTORS_SPARE 64     /* for all else than clients */
#define GATE_DESCRIPTORS_PASSING 8192 /* of requests that begin or are answered, at most */

struct ev_loop;
struct gate;
struct hub;

/* What main knows of the process, and does for the gate. */
struct gate_health {
    /* Fills `detail` with the members of a JSON object, as "feed":"streaming","store":"up". */
    bool (*ready)(void *ctx, struct buffer *detail);
    /* Turns push off or on, for all processes that serve this port. */
    void (*switch_push)(void *ctx, bool on);
    /* Appends a JSON object with the rules (feed.h); RC_AGAIN: another process reads the slot. */
    enum rc (*rules)(void *ctx, struct buffer *out);
    void *ctx;
};

/* Listening descriptors; -1: none. */
struct gate_sockets {
    int clients; /* gate.listen */
    int admin;   /* gate.admin_listen */
};
#define GATE_NO_SOCKETS ((struct gate_sockets){-1, -1})

/*
 * Listens on gate.listen, with the role gate, and on gate.admin_listen, where it is set; several
 * processes may take connections from the descriptors, which are the caller's. Waits two seconds
 * for another process to let the place go. A failure is logged, with what and why.
 */
MUST_CHECK enum rc gate_listen(const struct config *config, struct gate_sockets *ret_sockets);
/* Has gate_listen anything to listen on? Without the role gate, only admin_listen. */
bool gate_has_socket(const struct config *config);
/*
 * Closes them, and removes what they left in the file system, unix sockets; once one is closed,
 * another relay may have put its own there.
 */
void gate_unlisten(const struct config *config, struct gate_sockets sockets);
/* Closes them in a process that shares them with others. */
void gate_sockets_close(struct gate_sockets sockets);

/*
 * Takes connections from the sockets on the given loop. NULL when it could not,
 * after one log line that says what and why. config, hub and stats must outlive it;
 * health is copied, the descriptors stay the caller's. hub NULL: a process without the role gate,
 * which serves its health and metrics only.
 */
struct gate *gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
                       struct stats *stats, const struct gate_health *health,
                       struct gate_sockets sockets);

/*
 * Stops accepting, says bye (4201, `in` spread over the drain window) to everyone and closes them;
 * calls on_drained once the last is gone, at the latest when the drain window is over.
 */
void gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx);

/* The kill switch: off, WebSocket and SSE are sent away and refused, polls go on. */
void gate_push_set(struct gate *gate, bool on);
bool gate_push_is_on(const struct gate *gate);

/* Checks what only OpenSSL can of the settings, tls_cert and tls_key, without a gate. */
MUST_CHECK enum rc gate_check(const struct config *config, char *error, size_t room);

/* Reads tls_cert and tls_key again, for new connections; files that do not fit change nothing. */
void gate_new_certificate(struct gate *gate);

/* The config's keys of tokens have changed: believes those from now on. */
void gate_take_key(struct gate *gate);

/* Closes whatever is still open. Accepts NULL. */
void gate_close(struct gate *gate);

#endif
