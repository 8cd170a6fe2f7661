/* stats.h: the counters and gauges behind /metrics. */
#ifndef CLAIRON_BASE_STATS_H
#define CLAIRON_BASE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/histogram.h"

/* How that of several workers is told as one; of gauges, the living ones' alone. */
enum stats_kind {
    STATS_COUNTER,       /* the sum */
    STATS_GAUGE,         /* the largest: what they have in common, or the worst */
    STATS_GAUGE_LEAST,   /* likewise, where less is worse */
    STATS_GAUGE_NEAREST, /* the least, but for 0, which is none */
    STATS_GAUGE_SUM      /* the sum: each has its own */
};

/* X(name in enum, Prometheus name, kind, help); those that differ in labels stand in a row. */
#define STATS_REPEATS "Repeats of idempotency keys, by the layer that recognized them"
#define STATS_ERRORS "Acks given up, and notifications with a fault that the error log names"
#define STATS_GAPS "Gaps announced to clients"
#define STATS_LIST(X)                                                                              \
    X(FEED_CONNECTED, "clairon_feed_connected", GAUGE, "1 while replication streams")              \
    X(FEED_STALLED, "clairon_feed_standby_stalled", GAUGE,                                         \
      "1 while no WAL comes to the standby that is read, or its replay stands")                    \
    X(FEED_FRAMES, "clairon_feed_frames_total", COUNTER, "Frames received from the slot")          \
    X(FEED_BYTES, "clairon_feed_bytes_total", COUNTER, "Bytes received from the slot")             \
    X(FEED_RECONNECTS, "clairon_feed_reconnects_total", COUNTER, "Times the feed started over")    \
    X(FEED_RECEIVED_LSN, "clairon_feed_received_lsn_bytes", GAUGE, "Newest WAL position seen")     \
    X(FEED_CONFIRMED_LSN, "clairon_feed_confirmed_lsn_bytes", GAUGE, "WAL position confirmed")     \
    X(FEED_UNCONFIRMED, "clairon_feed_unconfirmed_bytes", GAUGE,                                   \
      "WAL received that PostgreSQL must still keep")                                              \
    X(FEED_LAG, "clairon_feed_lag_seconds", GAUGE,                                                 \
      "Age of what comes from the slot, or waits for the store; 0 when quiet")                     \
    X(STORE_CONNECTED, "clairon_store_connected", GAUGE_LEAST,                                     \
      "1 while the store answers, and a gate can follow it")                                       \
    X(STORE_NOTES, "clairon_store_notifications_total", COUNTER, "Notifications stored")           \
    X(STORE_REPLAYED, "clairon_store_replayed_total", COUNTER, "Frames already stored, skipped")   \
    X(STORE_ACKS, "clairon_store_acks_total", COUNTER, "Acknowledgements that were new")           \
    X(STORE_COMPLETED, "clairon_store_completed_total", COUNTER, "Messages acked by everyone")     \
    X(STORE_NACKS, "clairon_nacks_total", COUNTER, "Retries put off by their user")                \
    X(STORE_RETRIES, "clairon_retries_total", COUNTER, "Users for whom a message was repeated")    \
    X(STORE_COPIES, "clairon_retry_copies_total", COUNTER, "Entries made for retries")             \
    X(STORE_EXHAUSTED, "clairon_errors_total{reason=\"exhausted\"}", COUNTER, STATS_ERRORS)        \
    X(STORE_EXPIRED, "clairon_errors_total{reason=\"expired\"}", COUNTER, STATS_ERRORS)            \
    X(FEED_REJECTED, "clairon_errors_total{reason=\"rejected\"}", COUNTER, STATS_ERRORS)           \
    X(FEED_UNDECODABLE, "clairon_errors_total{reason=\"undecodable\"}", COUNTER, STATS_ERRORS)     \
    X(STORE_ERROR_LOG, "clairon_errors_entries", GAUGE, "Entries in the error log")                \
    X(STORE_STREAM, "clairon_store_stream_entries", GAUGE, "Entries in the stream")                \
    X(STORE_PENDING, "clairon_pending_messages", GAUGE, "Messages that lack acknowledgements")     \
    X(STORE_OLDEST, "clairon_pending_oldest_seconds", GAUGE,                                       \
      "Time since the commit of the oldest unacknowledged notification; 0: none")                  \
    X(REPEATS_MEMORY, "clairon_idempotent_repeats_total{layer=\"memory\"}", COUNTER,               \
      STATS_REPEATS)                                                                               \
    X(REPEATS_STORE, "clairon_idempotent_repeats_total{layer=\"store\"}", COUNTER, STATS_REPEATS)  \
    X(REPEATS_DATABASE, "clairon_idempotent_repeats_total{layer=\"database\"}", COUNTER,           \
      STATS_REPEATS)                                                                               \
    X(STORE_TRIMMED, "clairon_store_trimmed_total", COUNTER, "Entries older than the retention")   \
    X(STORE_ERRORS, "clairon_store_errors_total", COUNTER, "Error replies of the store")           \
    X(STORE_UNORDERED, "clairon_store_unordered_total", COUNTER,                                   \
      "Notifications that did not wait any longer for earlier ones of another shard")              \
    X(HUB_NOTES, "clairon_hub_notifications_total", COUNTER, "Notifications read for delivery")    \
    X(HUB_DELIVERED, "clairon_hub_delivered_total", COUNTER, "Messages handed to sockets")         \
    X(HUB_GAPS_TRIMMED, "clairon_hub_gaps_total{why=\"trimmed\"}", COUNTER, STATS_GAPS)            \
    X(HUB_GAPS_EXPIRED, "clairon_hub_gaps_total{why=\"expired\"}", COUNTER, STATS_GAPS)            \
    X(HUB_GAPS_EPOCH, "clairon_hub_gaps_total{why=\"epoch\"}", COUNTER, STATS_GAPS)                \
    X(HUB_GAPS_SHED, "clairon_hub_gaps_total{why=\"shed\"}", COUNTER, STATS_GAPS)                  \
    X(HUB_SHED_LOW, "clairon_shed_total{class=\"low\"}", COUNTER,                                  \
      "Lines left out for want of CPU or memory")                                                  \
    X(HUB_SHED_NORMAL, "clairon_shed_total{class=\"normal\"}", COUNTER,                            \
      "Lines left out for want of CPU or memory")                                                  \
    X(HUB_SHEDDING, "clairon_shedding", GAUGE, "What is left out: 0 nothing, 1 LOW, 2 NORMAL")     \
    X(HUB_RESUME_PAGES, "clairon_resume_pages_total", COUNTER,                                     \
      "Pages of the stream that resuming sessions read from the store")                            \
    X(HUB_RESUME_WAITS, "clairon_resume_waits_total", COUNTER,                                     \
      "Pages that waited because their user had used up delivery.resume_pages")                    \
    X(HUB_LAG, "clairon_hub_lag_seconds", GAUGE, "How long lines wait for their turn")             \
    X(HUB_QUEUED, "clairon_hub_queued_bytes", GAUGE_SUM, "Notifications that sockets do not take") \
    X(GATE_CONNECTIONS, "clairon_gate_connections", GAUGE_SUM, "Open client connections")          \
    X(GATE_CONNECTIONS_MAX, "clairon_gate_connections_max", GAUGE_SUM, "gate.max_connections")     \
    X(GATE_STREAMS, "clairon_gate_streams", GAUGE_SUM, "Open SSE connections and polls")           \
    X(GATE_CERTIFICATE, "clairon_gate_certificate_expiry_timestamp_seconds", GAUGE_NEAREST,        \
      "Unix time at which the certificate of gate.tls_cert ends; 0: none")                         \
    X(GATE_PUSH_OFF, "clairon_gate_push_off", GAUGE, "1 while push is turned off")                 \
    X(GATE_ACCEPTED, "clairon_gate_accepted_total", COUNTER, "Client connections accepted")        \
    X(GATE_REFUSED, "clairon_gate_refused_total", COUNTER, "Client connections refused")           \
    X(GATE_TOO_FAST, "clairon_gate_requests_refused_total", COUNTER,                               \
      "HTTP requests beyond gate.request_rate")                                                    \
    X(GATE_TURNS, "clairon_loop_turns_total", COUNTER, "Times the event loop woke")                \
    X(GATE_PROTOCOL_ERRORS, "clairon_gate_protocol_errors_total", COUNTER,                         \
      "Client messages that broke the protocol")                                                   \
    X(LOG_LOST, "clairon_log_lines_lost_total", COUNTER, "Lines that the log did not take")

enum metric {
#define STATS_ENUM(name, metric, kind, help) STAT_##name,
    STATS_LIST(STATS_ENUM)
#undef STATS_ENUM
        STAT_COUNT
};

#define STATS_SCRIPTS "From a script's or a transaction's sending to its answer"
/* X(name in enum, Prometheus name, help) */
#define TIMES_LIST(X)                                                                              \
    X(DECODED, "clairon_decoded_seconds", "From a commit until the feed has all of it")            \
    X(STORED, "clairon_stored_seconds", "From a batch's first commit until the store has it")      \
    X(SENT, "clairon_sent_seconds", "From a commit until a connected client's socket took it")     \
    X(ACKED, "clairon_acked_seconds", "From a commit until an acknowledgement of a client came")   \
    X(SCRIPT_INGEST, "clairon_store_script_seconds{script=\"ingest\"}", STATS_SCRIPTS)             \
    X(SCRIPT_SHOWN, "clairon_store_script_seconds{script=\"shown\"}", STATS_SCRIPTS)               \
    X(SCRIPT_ACK, "clairon_store_script_seconds{script=\"ack\"}", STATS_SCRIPTS)                   \
    X(SCRIPT_DUE, "clairon_store_script_seconds{script=\"due\"}", STATS_SCRIPTS)                   \
    X(SCRIPT_OTHER, "clairon_store_script_seconds{script=\"other\"}", STATS_SCRIPTS)

enum time_of {
#define TIMES_ENUM(name, metric, help) TIME_##name,
    TIMES_LIST(TIMES_ENUM)
#undef TIMES_ENUM
        TIME_COUNT
};

/* One process's, in memory that its fellow workers share. */
struct stats {
    uint64_t values[STAT_COUNT];
    struct histogram times[TIME_COUNT];
    bool is_dead;            /* its worker: none runs now */
    int64_t beat_us;         /* when a worker's loop turned last; monotonic */
    const struct stats *all; /* of all workers; NULL: this process is alone */
    int all_count;
};

static inline void
stats_add(struct stats *stats, enum metric stat, uint64_t amount)
{
    stats->values[stat] += amount;
}

static inline void
stats_set(struct stats *stats, enum metric stat, uint64_t value)
{
    stats->values[stat] = value;
}

/* How long one took, in microseconds; clocks may differ, so less than nothing counts as nothing. */
static inline void
stats_time(struct stats *stats, enum time_of what, int64_t took_us)
{
    histogram_add(&stats->times[what], took_us);
}

/* What a worker that died showed is not so any more. Counters stay. */
void stats_reset_gauges(struct stats *stats);

/* Of all workers, see enum stats_kind. */
uint64_t stats_total(const struct stats *stats, enum metric stat);

/* {"clairon_..":0,..} */
MUST_CHECK enum rc stats_write_json(const struct stats *stats, struct buffer *out);

/* Writes all of them, and the build, in Prometheus' text format, HELP and TYPE included. */
MUST_CHECK enum rc stats_write(const struct stats *stats, struct buffer *out);

#endif
