/* send.h: sends a session's frames. */
#ifndef CLAIRON_GATE_WS_SEND_H
#define CLAIRON_GATE_WS_SEND_H

#include <sys/uio.h>

#include "gate/ws/conn.h"

struct session_transport;

const struct session_transport *gate_transport(const struct gate_conn *conn);

/*
 * Returns the number of unsent bytes of the frame in which `sent` ends; *ret_rest points to them.
 */
size_t gate_send_rest(const struct iovec *pieces, int count, size_t sent,
                      const unsigned char **ret_rest);

#endif
