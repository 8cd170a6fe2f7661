/* scripts.h: the source of scripts/NAME.lua, embedded at build time. */
#ifndef CLAIRON_STORE_SCRIPTS_H
#define CLAIRON_STORE_SCRIPTS_H

#define STORE_SCRIPTS_OF_FEED(X)                                                                   \
    X(acquire) X(delete_members) X(rewind) X(ingest) X(stage) X(fence) X(fence_large) X(advance)
#define STORE_SCRIPTS_OF_STREAM(X) X(hello) X(start_position) X(follow) X(range) X(earlier)
#define STORE_SCRIPTS_OF_ACKS(X)                                                                   \
    X(presence) X(report) X(ack) X(nack) X(due) X(redrive) X(error_entry) X(drop) X(trace) X(gap)
#define STORE_SCRIPTS_OF_SINKS(X) X(receipts_read) X(receipts_ack) X(receipts_rewind)
#define STORE_SCRIPTS_OF_WEB_PUSH(X)                                                               \
    X(bind_endpoint)                                                                               \
    X(check_endpoints)                                                                             \
    X(subscriptions) X(lease_web_pushes) X(end_web_push) X(was_present) X(push_ticket)
#define STORE_SCRIPTS_OF_OPERATORS(X)                                                              \
    X(audit)                                                                                       \
    X(audit_read)                                                                                  \
    X(forget_sessions)                                                                             \
    X(forget_pairs) X(forget_scores) X(forget_errors) X(forget_stream) X(forget_log) X(forget_keys)
#define STORE_SCRIPTS(X)                                                                           \
    STORE_SCRIPTS_OF_FEED(X)                                                                       \
    STORE_SCRIPTS_OF_STREAM(X)                                                                     \
    STORE_SCRIPTS_OF_ACKS(X)                                                                       \
    STORE_SCRIPTS_OF_SINKS(X)                                                                      \
    STORE_SCRIPTS_OF_WEB_PUSH(X)                                                                   \
    STORE_SCRIPTS_OF_OPERATORS(X)                                                                  \
    X(history)                                                                                     \
    X(pending_page)                                                                                \
    X(trim)                                                                                        \
    X(ticket)                                                                                      \
    X(cutoff) X(publish) X(receipts_page) X(overview) X(count_pending) X(errors) X(latest) X(user)

enum store_script {
#define STORE_SCRIPT_ENUM(name) STORE_SCRIPT_##name,
    STORE_SCRIPTS(STORE_SCRIPT_ENUM)
#undef STORE_SCRIPT_ENUM
        STORE_SCRIPT_COUNT
};

/* The text of each script, and its SHA-1 in hexadecimal digits, as EVALSHA needs it. */
#define STORE_SCRIPT_TEXT(name) extern const char store_script_##name[], store_script_sha_##name[];
STORE_SCRIPTS(STORE_SCRIPT_TEXT)
#undef STORE_SCRIPT_TEXT

#endif
