/* walmsg.h: messages of PostgreSQL's streaming replication protocol. */
#ifndef CLAIRON_WIRE_WALMSG_H
#define CLAIRON_WIRE_WALMSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/bytes.h"

/* PostgreSQL documentation, "Streaming Replication Protocol": XLogData, Primary keepalive. */
enum walmsg_kind { WALMSG_DATA, WALMSG_KEEPALIVE };

struct walmsg {
    enum walmsg_kind kind;
    uint64_t wal_end; /* keepalive: the server's end of WAL */
    bool reply_requested;
    struct bytes data; /* WALMSG_DATA: the output of the plugin; points into the message */
};

#define WALMSG_STATUS_SIZE 34

/* Parses one CopyData payload. RC_BAD: any other message. */
MUST_CHECK enum rc walmsg_parse(struct bytes message, struct walmsg *ret_message);

/* Builds a standby status update that confirms everything up to `stored`. */
void walmsg_status(unsigned char ret_status[WALMSG_STATUS_SIZE], uint64_t received, uint64_t stored,
                   int64_t now_us);

#endif
