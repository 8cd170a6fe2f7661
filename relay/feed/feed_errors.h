/* feed_errors.h: errors of PostgreSQL, in one line and with a hint. */
#ifndef CLAIRON_FEED_FEED_ERRORS_H
#define CLAIRON_FEED_FEED_ERRORS_H

/* What a server's error means for the operator; "" when it speaks for itself. */
const char *feed_error_hint(const char *sqlstate, const char *message);
/* The message of the last error in one line. Valid until the next call. */
const char *feed_error_line(const char *message);

#endif
