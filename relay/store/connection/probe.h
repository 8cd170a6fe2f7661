/* probe.h: a connection to one server for the doctor, whose requests wait for their replies. */
#ifndef CLAIRON_STORE_PROBE_H
#define CLAIRON_STORE_PROBE_H

#include <stdbool.h>

#include "base/config.h"
#include "store/connection/connect.h"

#define PROBE_ERROR_MAX 1024
#define PROBE_NO_DATABASE (-1) /* for a sentinel */

struct probe;
struct redisReply;

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

#endif
