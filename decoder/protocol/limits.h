/* limits.h: size limits of a notification's parts, for the plugin and the relay. */
#ifndef CLAIRON_LIMITS_H
#define CLAIRON_LIMITS_H

/* One word of an audience: ASCII. */
#define LIMIT_AUDIENCE_WORD 63

/* A user, a group, or one part of a target, in bytes of UTF-8. */
#define LIMIT_TARGET 255

/* The name of a rule, in bytes of UTF-8. */
#define LIMIT_RULE 255

/* Parts of a composite audience, and of its targets. */
#define LIMIT_PARTS 4

/* A composite target, where each byte may need an escape. */
#define LIMIT_COMPOSITE (LIMIT_PARTS * (2 * LIMIT_TARGET + 1))

#endif
