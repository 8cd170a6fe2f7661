/* scripts.h: the source of scripts/NAME.lua, embedded at build time. */
#ifndef CLAIRON_STORE_SCRIPTS_H
#define CLAIRON_STORE_SCRIPTS_H

#define STORE_SCRIPTS_OF_STREAM(X)                                                                 \
    X(hello) X(start_position) X(follow) X(acquire) X(rewind) X(ingest) X(stage) X(fence) X(range)
#define STORE_SCRIPTS_OF_ACKS(X)                                                                   \
    X(presence) X(report) X(ack) X(nack) X(due) X(redrive) X(error_entry) X(trace)
#define STORE_SCRIPTS(X)                                                                           \
    STORE_SCRIPTS_OF_STREAM(X)                                                                     \
    STORE_SCRIPTS_OF_ACKS(X)                                                                       \
    X(history)                                                                                     \
    X(pending_page) X(trim) X(ticket) X(publish) X(overview) X(pending) X(errors) X(latest) X(user)

enum store_script {
#define STORE_SCRIPT_ENUM(name) STORE_SCRIPT_##name,
    STORE_SCRIPTS(STORE_SCRIPT_ENUM)
#undef STORE_SCRIPT_ENUM
        STORE_SCRIPT_COUNT
};

#define STORE_SCRIPT_TEXT(name) extern const char store_script_##name[];
STORE_SCRIPTS(STORE_SCRIPT_TEXT)
#undef STORE_SCRIPT_TEXT

#endif
