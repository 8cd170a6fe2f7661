/* control.h: a session's control queue. */
#ifndef CLAIRON_HUB_CONTROL_H
#define CLAIRON_HUB_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

struct session;

#define SESSION_CONTROL_MAX 65536 /* maximum bytes of the control queue */

/* True if the control queue has room for a frame of this length. */
bool session_can_send_control(const struct session *session, size_t len);

#endif
