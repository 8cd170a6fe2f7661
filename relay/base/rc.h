/* rc.h: the answers a function can give that its caller can act on. */
#ifndef CLAIRON_BASE_RC_H
#define CLAIRON_BASE_RC_H

enum rc {
    RC_OK = 0,
    RC_AGAIN,  /* nothing wrong, nothing there yet: wait */
    RC_CLOSED, /* the other side ended in good order: stop */
    RC_BAD,    /* what the peer or the user gave is wrong: refuse it */
    RC_LIMIT,  /* a ceiling was reached: cap */
    RC_IO,     /* a connection or a file failed: reconnect, retry */
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

#endif
