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
    void *ctx;
};

/*
 * Listens on config->gate.listen; several processes may take connections from the one descriptor,
 * which is the caller's. Waits two seconds for another process to let the place go. A failure is
 * logged, with what and why.
 */
MUST_CHECK enum rc gate_listen(const struct config *config, int *ret_fd);
/*
 * Closes it, and removes what it left in the file system, a unix socket; once it is closed, another
 * relay may have put its own there.
 */
void gate_unlisten(const struct config *config, int listen_fd);

/*
 * Takes connections from listen_fd on the given loop. NULL when it could not,
 * after one log line that says what and why. config, hub and stats must outlive it;
 * health is copied, the descriptor stays the caller's.
 */
struct gate *gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
                       struct stats *stats, const struct gate_health *health, int listen_fd);

/*
 * Stops accepting, says bye (4201, `in` spread over the drain window) to everyone and closes them;
 * calls on_drained once the last is gone, at the latest when the drain window is over.
 */
void gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx);

/* The kill switch: off, WebSocket and SSE are sent away and refused, polls go on. */
void gate_push_set(struct gate *gate, bool on);
bool gate_push_is_on(const struct gate *gate);

/* Checks what only OpenSSL can of the settings, tls_cert and tls_key, without a gate. */
MUST_CHECK enum rc gate_check(const struct config *config, char error[CONFIG_ERROR_MAX]);

/* Reads tls_cert and tls_key again, for new connections; files that do not fit change nothing. */
void gate_new_certificate(struct gate *gate);

/* The config's keys of tokens have changed: believes those from now on. */
void gate_take_key(struct gate *gate);

/* Closes whatever is still open. Accepts NULL. */
void gate_close(struct gate *gate);

#endif
