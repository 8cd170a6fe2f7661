/* rc.h: result codes that callers can act on. */
#ifndef CLAIRON_BASE_RC_H
#define CLAIRON_BASE_RC_H

enum rc {
    RC_OK = 0,
    RC_AGAIN,  /* would block: wait */
    RC_CLOSED, /* the peer closed the connection cleanly: stop */
    RC_BAD,    /* invalid data from the peer or the user: reject it */
    RC_LIMIT,  /* a limit is reached */
    RC_IO,     /* a connection or file failed: reconnect, retry */
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

#endif
