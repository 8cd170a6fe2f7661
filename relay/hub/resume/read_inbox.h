/* read_inbox.h: the state INBOX, in which a session reads its user's inbox page by page. */
#ifndef CLAIRON_HUB_RESUME_READ_INBOX_H
#define CLAIRON_HUB_RESUME_READ_INBOX_H

struct session;

void session_read_inbox(struct session *session);

#endif
