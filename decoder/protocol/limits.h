/* limits.h: size limits of a notification's parts, for the plugin and the relay. */
#ifndef CLAIRON_LIMITS_H
#define CLAIRON_LIMITS_H

/* One word of an audience: ASCII. */
#define LIMIT_AUDIENCE_WORD 63

/* A user, a group, or one part of a target, in bytes of UTF-8. */
#define LIMIT_TARGET 255

/* The targets of a notification, without duplicates, and their bytes of UTF-8. */
#define LIMIT_TARGETS 10000
#define LIMIT_TARGETS_BYTES (256 * 1024)

/* Recipients are not sent a longer list of targets, but its length. */
#define LIMIT_TARGETS_SENT 100

/* The name of a rule, in bytes of UTF-8. */
#define LIMIT_RULE 255

/* Parts of a composite audience, and of its targets. */
#define LIMIT_PARTS 4

/* The text of a Web Push (`web_push`), in bytes of its JSON. */
#define LIMIT_WEB_PUSH 8192

/* A composite target, where each byte may need an escape. */
#define LIMIT_COMPOSITE (LIMIT_PARTS * (2 * LIMIT_TARGET + 1))

#endif
