/* send.h: a session's frames, to the socket at once where that is possible. */
#ifndef CLAIRON_GATE_WS_SEND_H
#define CLAIRON_GATE_WS_SEND_H

#include <sys/uio.h>

#include "gate/ws/conn.h"

struct session_transport;

const struct session_transport *gate_transport(const struct gate_conn *conn);

/* Bytes of the frame that `sent` ends in which are still to be sent; *ret_rest begins there. */
size_t gate_send_rest(const struct iovec *pieces, int count, size_t sent,
                      const unsigned char **ret_rest);

#endif
