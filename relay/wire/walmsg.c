/* walmsg.c: parses and builds messages of the streaming replication protocol. */
#include "wire/walmsg.h"

#define DATA_HEAD_SIZE 25                          /* 'w', start, end, clock */
#define KEEPALIVE_SIZE 18                          /* 'k', end, clock, reply */
#define POSTGRES_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in Unix µs */

enum rc
walmsg_parse(struct bytes message, struct walmsg *ret_message)
{
    if (message.len >= DATA_HEAD_SIZE && message.at[0] == 'w') {
        *ret_message = (struct walmsg){
            .kind = WALMSG_DATA,
            .wal_end = bytes_get_u64(message.at + 9),
            .data = {message.at + DATA_HEAD_SIZE, message.len - DATA_HEAD_SIZE},
        };
        return RC_OK;
    }
    if (message.len == KEEPALIVE_SIZE && message.at[0] == 'k') {
        *ret_message = (struct walmsg){
            .kind = WALMSG_KEEPALIVE,
            .wal_end = bytes_get_u64(message.at + 1),
            .reply_requested = message.at[17] != 0,
        };
        return RC_OK;
    }
    return RC_BAD;
}

void
walmsg_status(unsigned char ret_status[WALMSG_STATUS_SIZE], uint64_t received, uint64_t stored,
              int64_t now_us)
{
    ret_status[0] = 'r';
    bytes_put_u64(ret_status + 1, received);
    bytes_put_u64(ret_status + 9, stored);
    bytes_put_u64(ret_status + 17, stored);
    bytes_put_u64(ret_status + 25, (uint64_t)(now_us - POSTGRES_EPOCH_US));
    ret_status[33] = 0; /* 0: do not request a reply (decoder/FRAMES.md) */
}
