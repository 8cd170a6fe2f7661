/* doctor_private.h: the findings, and the checks that add them. */
#ifndef CLAIRON_DOCTOR_PRIVATE_H
#define CLAIRON_DOCTOR_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/rc.h"
#include "base/urls.h"
#include "store/connection/connect.h"
#include "store/store.h"
#include "store/scripts/constants.h"
#include "store/scripts/keys.h"
#include "store/servers/topology.h"

struct redisReply;

/* ---- findings: one row per check, with a hint for errors and warnings */

#define FINDINGS_MAX 4096
#define FINDING_TEXT_MAX 2048

struct finding {
    char *area; /* settings, host, gate, postgresql, primary, sink, store */
    char *check;
    bool ok;
    bool is_warning; /* `ok` is true, but there is a hint */
    char *detail;    /* never a secret */
    char *hint;      /* "" if no action is needed; no full stop, since it may end in a command */
};

/* A zeroed struct is empty. */
struct findings {
    struct finding *rows;
    size_t count;
    size_t errors; /* failed checks, including findings beyond FINDINGS_MAX */
    size_t warnings;
};

/*
 * `hint` is used only for failed checks, and may be NULL. Strings are copied and truncated. Exact
 * duplicates are dropped.
 */
void findings_add(struct findings *findings, const char *area, const char *check, bool ok,
                  const char *hint, const char *format, ...) PRINTF_LIKE(6, 7);
/* Adds a warning: a passed check with a hint. */
void findings_warn(struct findings *findings, const char *area, const char *check, const char *hint,
                   const char *format, ...) PRINTF_LIKE(5, 6);
void findings_free(struct findings *findings); /* leaves it empty */

/* ---- the checks */

/* Checks the files named by the settings, the auth key and the certificates. `path` may be NULL. */
void doctor_check_settings(const struct config *config, const char *path,
                           struct findings *findings);

/* Checks the limits of this machine. */
void doctor_check_limits(const struct config *config, struct findings *findings);

/*
 * Checks that the relay on gate.listen is ready and accepts the origins in the settings. Waits
 * at most 5 s per reply.
 */
void doctor_check_gate(const struct config *config, struct findings *findings);

/*
 * Checks the server of feed.conninfo. If it is a standby, also checks its primary: `primary` is the
 * connection string, NULL for feed.primary_conninfo. Waits at most 10 s per reply; the system
 * limits the wait for name servers. Changes nothing. *ret_origin is the database, with empty
 * strings if unknown. *ret_is_read: a relay reads the slot.
 */
void doctor_check_postgresql(const struct config *config, const char *primary,
                             struct findings *findings, struct origin *ret_origin,
                             bool *ret_is_read);

/*
 * Checks that the SQL sink can insert receipts, and that the webhook's endpoint replies, as far as
 * they are set. Waits at most 10 s per reply; changes nothing.
 */
void doctor_check_sink(const struct config *config, struct findings *findings);

/*
 * Checks the servers of store.url. Waits at most 5 s per reply; the system limits the wait for
 * name servers. Writes nothing. `origin` is the database that the relay reads, with empty strings
 * if unknown. `is_read`: a relay reads its slot.
 */
void doctor_check_store(const struct config *config, const struct origin *origin, bool is_read,
                        struct findings *findings);

/* ---- probes: connections to the store, whose requests wait for their replies (probe.c) */

#define PROBE_TIMED_OUT "reply timed out" /* in the error of a server that does not reply */
#define PROBE_ERROR_MAX 1024
#define PROBE_NO_DATABASE (-1) /* for a sentinel */

struct probe;

/*
 * Connects and authenticates. `timeout_s` limits the wait for the connection, and for each reply.
 * NULL: `error` is the reason.
 */
struct probe *probe_open(const struct config *config, const struct url *address, double timeout_s,
                         char error[PROBE_ERROR_MAX]);
void probe_close(struct probe *probe); /* accepts NULL */

/* The reply is valid until the next request. NULL: it is an error, or missing (probe_error). */
const struct redisReply *probe_request(struct probe *probe, int argc, const char **argv);
/* Returns the error of the last failed request. */
const char *probe_error(const struct probe *probe);
/* True if the last request was rejected because another server has the slot, or is the primary. */
bool probe_is_redirected(const struct probe *probe);

/* ---- the servers of a store */

#define STORE "store"
#define VALUE_MAX 256

/* The primaries of a cluster, by shard. */
struct store_primaries {
    bool is_known[STORE_SHARDS_MAX]; /* the shard has a primary */
    struct slots_node nodes[STORE_SHARDS_MAX];
};

/* A server while it is checked. */
struct store_server {
    const struct config *config;
    struct findings *findings;
    struct slots_node node;                  /* port 0: the single server */
    bool is_replica;                         /* the server may be a replica */
    const struct store_primaries *primaries; /* NULL: not a cluster */
    bool has_slots;                          /* in a cluster: CLUSTER SLOTS lists the node */
    struct probe *probe;
    char *info;                 /* all of INFO */
    char where[URL_FORMAT_MAX]; /* "host:port: ", or "" for the single server */
    char key[STORE_KEY_MAX];    /* KEY_DOCTOR */
};

/* Connects, and runs all checks of a server. Returns false if it does not reply. */
bool store_server_check(struct store_server *server);

/* Writes the numbers of the node's shards, such as "3,7". */
void store_list_shards(const struct config *config, const struct store_primaries *primaries,
                       const struct slots_node *node, char *ret_list);

#define STORE_LOST_HINT                                                                            \
    "Start this node: if it has keys of an interrupted move, their shard waits. If it is lost "    \
    "and "                                                                                         \
    "no shard waits for it: CLUSTER FORGET on all other nodes within 60 s"

/* Reads an address in [store] url, by number. Returns false if it is invalid. */
bool store_read_address(const struct config *config, unsigned number, struct url *ret_address);

/* Returns a hint, or "" for an unknown error. */
const char *store_hint(const char *error);

#endif
