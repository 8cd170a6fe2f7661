/* stats.h: the counters, gauges and histograms behind /metrics. */
#ifndef CLAIRON_BASE_STATS_H
#define CLAIRON_BASE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

/* How the values of several workers are merged. Gauges of dead workers are ignored. */
enum stats_kind {
    STATS_COUNTER,       /* sum */
    STATS_GAUGE,         /* maximum: the common or the worst value */
    STATS_GAUGE_MIN,     /* minimum: the common or the worst value */
    STATS_GAUGE_NEAREST, /* minimum of the values that are not 0 */
    STATS_GAUGE_SUM      /* sum of separate values */
};

/*
 * X(name in enum, Prometheus name, kind, help); metrics that differ only in labels must be
 * adjacent.
 */
#define STATS_REPEATS "Duplicate idempotency keys, by the layer that detected them"
#define STATS_ERRORS "Entries added to the error log"
#define STATS_DENIED                                                                               \
    "Changes denied instead of sent, once for each rule and decoding, or notifications over "      \
    "owner_pairs"
#define STATS_TOKENS "Tokens rejected, by reason"
#define STATS_GAPS "Gaps announced to clients"
#define STATS_ROWS_ERRORS "Requests for the rows of live rules that ended with an error"
#define STATS_PUSHES_DENIED                                                                        \
    "Web Pushes not sent, because of their URL, their text or a subscription"
#define STATS_PUSHES                                                                               \
    "Web Pushes refused by push services, by status; 400: also other 4xx statuses and redirects"
#define STATS_SINK_BACKLOG                                                                         \
    "Receipts, or Web Pushes, that a sink has not taken; receipts before Redis 7: 1 000 a shard "  \
    "means 1 000 or more"
#define STATS_SINK_OLDEST                                                                          \
    "Age of the oldest receipt, or Web Push, that a sink has not taken; 0: none"
#define STATS_SINK_RECEIPTS "Receipts that a sink has taken"
#define STATS_SINK_FAILURES "Failed attempts of a sink to send receipts, or a Web Push"
#define STATS_SINK_SUCCESS "Unix time at which a sink last took receipts, or a Web Push; 0: never"
#define STATS_SINK_DROPPED                                                                         \
    "Receipts that were trimmed, or Web Pushes that expired, before a sink has taken them"
#define STATS_LIST(X)                                                                              \
    X(FEED_CONNECTED, "clairon_feed_connected", GAUGE,                                             \
      "1 while the replication stream is connected")                                               \
    X(FEED_STALLED, "clairon_feed_standby_stalled", GAUGE,                                         \
      "1 while the standby receives no WAL or does not replay it")                                 \
    X(FEED_FRAMES, "clairon_feed_frames_total", COUNTER, "Frames received from the slot")          \
    X(FEED_BYTES, "clairon_feed_bytes_total", COUNTER, "Bytes received from the slot")             \
    X(FEED_RECONNECTS, "clairon_feed_reconnects_total", COUNTER,                                   \
      "Streams from the slot that ended with an error; attempts to reconnect do not count")        \
    X(FEED_RECEIVED_LSN, "clairon_feed_received_lsn_bytes", GAUGE, "WAL position received")        \
    X(FEED_CONFIRMED_LSN, "clairon_feed_confirmed_lsn_bytes", GAUGE, "WAL position confirmed")     \
    X(FEED_UNCONFIRMED, "clairon_feed_unconfirmed_bytes", GAUGE,                                   \
      "Bytes of WAL received and not yet confirmed to PostgreSQL")                                 \
    X(FEED_WAL_RETAINED, "clairon_feed_retained_wal_bytes", GAUGE,                                 \
      "WAL that the slot retains on the disk of its server; 0 at a relay that waits for the slot") \
    X(FEED_WAL_SAFE, "clairon_feed_safe_wal_bytes", GAUGE_NEAREST,                                 \
      "WAL that can be written until the slot is lost (max_slot_wal_keep_size); 0: no limit")      \
    X(FEED_LAG, "clairon_feed_lag_seconds", GAUGE,                                                 \
      "Age of the oldest change waiting for the store, or of the newest change if none waits; 0 "  \
      "when idle")                                                                                 \
    X(STORE_CONNECTED, "clairon_store_connected", GAUGE_MIN,                                       \
      "1 while the store is available and a gate can read it")                                     \
    X(STORE_UNAVAILABLE, "clairon_store_unavailable_shards", GAUGE,                                \
      "Shards of the store that do not respond; the other shards of a cluster continue")           \
    X(STORE_REJECTS, "clairon_store_rejects_writes", GAUGE,                                        \
      "1 while the store replies but rejects writes: it is full, or cannot write to its disk")     \
    X(STORE_FOLLOWED, "clairon_store_followed_shards", GAUGE_SUM,                                  \
      "Shards read, summed over processes; in a cluster only shard 0 and those of connected "      \
      "users")                                                                                     \
    X(STORE_NOTIFICATIONS, "clairon_store_notifications_total", COUNTER, "Notifications stored")   \
    X(STORE_REPLAYED, "clairon_store_replayed_total", COUNTER,                                     \
      "Frames skipped because they were already stored")                                           \
    X(STORE_ACKS, "clairon_store_acks_total", COUNTER, "New acknowledgements")                     \
    X(STORE_COMPLETED, "clairon_store_completed_total", COUNTER,                                   \
      "Notifications acknowledged by all recipients")                                              \
    X(STORE_NACKS, "clairon_nacks_total", COUNTER, "Retries delayed by a nack")                    \
    X(STORE_RETRIES, "clairon_retries_total", COUNTER,                                             \
      "Users for whom a notification was retried")                                                 \
    X(STORE_THROTTLED, "clairon_retries_throttled_total", COUNTER,                                 \
      "Retries moved to a later time because their table owner had many")                          \
    X(STORE_COPIES, "clairon_retry_copies_total", COUNTER, "Stream entries created for retries")   \
    X(STORE_DROPPED, "clairon_dropped_total", COUNTER,                                             \
      "Users for whom a pending notification was dropped by clairon drop or POST /drop")           \
    X(STORE_EXHAUSTED, "clairon_errors_total{reason=\"exhausted\"}", COUNTER, STATS_ERRORS)        \
    X(STORE_EXPIRED, "clairon_errors_total{reason=\"expired\"}", COUNTER, STATS_ERRORS)            \
    X(FEED_REJECTED, "clairon_errors_total{reason=\"rejected\"}", COUNTER, STATS_ERRORS)           \
    X(FEED_UNDECODABLE, "clairon_errors_total{reason=\"undecodable\"}", COUNTER, STATS_ERRORS)     \
    X(DENIED_ROWS, "clairon_denied_total{reason=\"rows\"}", COUNTER, STATS_DENIED)                 \
    X(DENIED_TARGETS, "clairon_denied_total{reason=\"targets\"}", COUNTER, STATS_DENIED)           \
    X(DENIED_TIME, "clairon_denied_total{reason=\"time\"}", COUNTER, STATS_DENIED)                 \
    X(DENIED_BYTES, "clairon_denied_total{reason=\"bytes\"}", COUNTER, STATS_DENIED)               \
    X(DENIED_MEMORY, "clairon_denied_total{reason=\"memory\"}", COUNTER, STATS_DENIED)             \
    X(DENIED_PAIRS, "clairon_denied_total{reason=\"pairs\"}", COUNTER, STATS_DENIED)               \
    X(STORE_ERROR_LOG, "clairon_errors_entries", GAUGE, "Entries in the error log")                \
    X(STORE_ERROR_LOG_TRIMMED, "clairon_errors_trimmed_total", COUNTER,                            \
      "Entries trimmed from a full error log, the oldest of the owner with the most")              \
    X(STORE_MEMORY, "clairon_store_memory_bytes", GAUGE,                                           \
      "Memory used by the fullest store server")                                                   \
    X(STORE_MEMORY_MAX, "clairon_store_memory_max_bytes", GAUGE,                                   \
      "maxmemory of that server; 0: no limit")                                                     \
    X(STORE_STREAM, "clairon_store_stream_entries", GAUGE, "Entries in the stream")                \
    X(STORE_PENDING, "clairon_pending_messages", GAUGE,                                            \
      "Notifications that lack an acknowledgement")                                                \
    X(STORE_OLDEST, "clairon_pending_oldest_seconds", GAUGE,                                       \
      "Time since the commit of the oldest unacknowledged notification; 0: none")                  \
    X(REPEATS_MEMORY, "clairon_idempotent_repeats_total{layer=\"memory\"}", COUNTER,               \
      STATS_REPEATS)                                                                               \
    X(REPEATS_STORE, "clairon_idempotent_repeats_total{layer=\"store\"}", COUNTER, STATS_REPEATS)  \
    X(REPEATS_DATABASE, "clairon_idempotent_repeats_total{layer=\"database\"}", COUNTER,           \
      STATS_REPEATS)                                                                               \
    X(STORE_TRIMMED, "clairon_store_trimmed_total", COUNTER,                                       \
      "Stream entries removed after the retention time")                                           \
    X(AUDIT_LOST, "clairon_audit_lost_total", COUNTER,                                             \
      "Acts of operators that are only in the log: the queue or the audit stream was full")        \
    X(RECEIPTS_TRIMMED, "clairon_receipts_trimmed_total", COUNTER,                                 \
      "Receipts removed after receipts.retention, or beyond receipts.max_bytes")                   \
    X(STORE_ERRORS, "clairon_store_errors_total", COUNTER,                                         \
      "Error replies from the store, and skipped foreign stream entries")                          \
    X(STORE_UNORDERED, "clairon_store_unordered_total", COUNTER,                                   \
      "Notifications delivered without waiting for earlier ones of another shard")                 \
    X(HUB_NOTIFICATIONS, "clairon_hub_notifications_total", COUNTER,                               \
      "Notifications read for delivery")                                                           \
    X(HUB_DELIVERED, "clairon_hub_delivered_total", COUNTER, "Notifications written to sockets")   \
    X(HUB_GAPS_TRIMMED, "clairon_hub_gaps_total{why=\"trimmed\"}", COUNTER, STATS_GAPS)            \
    X(HUB_GAPS_EXPIRED, "clairon_hub_gaps_total{why=\"expired\"}", COUNTER, STATS_GAPS)            \
    X(HUB_GAPS_EPOCH, "clairon_hub_gaps_total{why=\"epoch\"}", COUNTER, STATS_GAPS)                \
    X(HUB_GAPS_SHED, "clairon_hub_gaps_total{why=\"shed\"}", COUNTER, STATS_GAPS)                  \
    X(HUB_SHED_LOW, "clairon_shed_total{class=\"low\"}", COUNTER,                                  \
      "Notifications dropped by load shedding")                                                    \
    X(HUB_SHED_NORMAL, "clairon_shed_total{class=\"normal\"}", COUNTER,                            \
      "Notifications dropped by load shedding")                                                    \
    X(HUB_SHEDDING, "clairon_shedding", GAUGE, "Load shedding: 0 none, 1 LOW, 2 NORMAL")           \
    X(HUB_RESUME_PAGES, "clairon_resume_pages_total", COUNTER,                                     \
      "Stream pages read from the store by resuming sessions")                                     \
    X(HUB_RESUME_WAITS, "clairon_resume_waits_total", COUNTER,                                     \
      "Stream page reads delayed by delivery.resume_pages")                                        \
    X(HUB_LAG, "clairon_hub_lag_seconds", GAUGE, "Queueing delay of notifications")                \
    X(HUB_QUEUED, "clairon_hub_queued_bytes", GAUGE_SUM, "Bytes in outbound queues")               \
    X(HUB_BARRIERS, "clairon_hub_waiting_barriers", GAUGE_SUM,                                     \
      "Requests for a barrier that wait for their answer")                                         \
    X(ROWS_WAITING, "clairon_rows_waiting_requests", GAUGE_SUM,                                    \
      "Requests for the rows of live rules that wait for a query")                                 \
    X(ROWS_HELD, "clairon_rows_held_bytes", GAUGE_SUM,                                             \
      "Bytes of rows in memory that clients have not read yet")                                    \
    X(ROWS_STUCK, "clairon_rows_stuck_queries", GAUGE_SUM,                                         \
      "Queries for rows that did not finish in time; each occupies a connection")                  \
    X(ROWS_SHARED, "clairon_rows_shared_total", COUNTER,                                           \
      "Requests for rows served by the query of another request")                                  \
    X(ROWS_REPEATED, "clairon_rows_repeated_total", COUNTER,                                       \
      "Requests for rows repeated because a delivered change was not visible yet")                 \
    X(ROWS_DENIED, "clairon_rows_errors_total{kind=\"denied\"}", COUNTER, STATS_ROWS_ERRORS)       \
    X(ROWS_TOO_MANY, "clairon_rows_errors_total{kind=\"too_many\"}", COUNTER, STATS_ROWS_ERRORS)   \
    X(ROWS_BUSY, "clairon_rows_errors_total{kind=\"busy\"}", COUNTER, STATS_ROWS_ERRORS)           \
    X(ROWS_TIMED_OUT, "clairon_rows_errors_total{kind=\"timeout\"}", COUNTER, STATS_ROWS_ERRORS)   \
    X(ROWS_LOST, "clairon_rows_errors_total{kind=\"lost\"}", COUNTER, STATS_ROWS_ERRORS)           \
    X(ROWS_STALE, "clairon_rows_errors_total{kind=\"stale\"}", COUNTER, STATS_ROWS_ERRORS)         \
    X(ROWS_FAILED, "clairon_rows_errors_total{kind=\"failed\"}", COUNTER, STATS_ROWS_ERRORS)       \
    X(GATE_CONNECTIONS, "clairon_gate_connections", GAUGE_SUM, "Open client connections")          \
    X(GATE_CONNECTIONS_MAX, "clairon_gate_connections_max", GAUGE_SUM,                             \
      "Limit of client connections")                                                               \
    X(GATE_STREAMS, "clairon_gate_streams", GAUGE_SUM, "Open SSE connections and polls")           \
    X(GATE_CERTIFICATE, "clairon_gate_certificate_expiry_timestamp_seconds", GAUGE_NEAREST,        \
      "Expiry of gate.tls_cert as a Unix time; 0: none")                                           \
    X(GATE_REALTIME_OFF, "clairon_gate_realtime_off", GAUGE, "1 while real-time delivery is off")  \
    X(GATE_ACCEPTED, "clairon_gate_accepted_total", COUNTER, "Client connections accepted")        \
    X(GATE_REJECTED, "clairon_gate_refused_total", COUNTER, "Client connections rejected")         \
    X(GATE_RATE_LIMITED, "clairon_gate_requests_refused_total", COUNTER,                           \
      "HTTP requests rejected by gate.request_rate")                                               \
    X(TOKENS_MALFORMED, "clairon_gate_tokens_rejected_total{reason=\"malformed\"}", COUNTER,       \
      STATS_TOKENS)                                                                                \
    X(TOKENS_ALGORITHM, "clairon_gate_tokens_rejected_total{reason=\"algorithm\"}", COUNTER,       \
      STATS_TOKENS)                                                                                \
    X(TOKENS_SIGNATURE, "clairon_gate_tokens_rejected_total{reason=\"signature\"}", COUNTER,       \
      STATS_TOKENS)                                                                                \
    X(TOKENS_CLAIMS, "clairon_gate_tokens_rejected_total{reason=\"claims\"}", COUNTER,             \
      STATS_TOKENS)                                                                                \
    X(TOKENS_ISSUER, "clairon_gate_tokens_rejected_total{reason=\"issuer\"}", COUNTER,             \
      STATS_TOKENS)                                                                                \
    X(TOKENS_AUDIENCE, "clairon_gate_tokens_rejected_total{reason=\"audience\"}", COUNTER,         \
      STATS_TOKENS)                                                                                \
    X(TOKENS_EARLY, "clairon_gate_tokens_rejected_total{reason=\"not_yet_valid\"}", COUNTER,       \
      STATS_TOKENS)                                                                                \
    X(TOKENS_EXPIRED, "clairon_gate_tokens_rejected_total{reason=\"expired\"}", COUNTER,           \
      STATS_TOKENS)                                                                                \
    X(TOKENS_CUT_OFF, "clairon_gate_tokens_rejected_total{reason=\"cut_off\"}", COUNTER,           \
      STATS_TOKENS)                                                                                \
    X(TOKENS_SIGNATURE_AT, "clairon_gate_signature_rejected_timestamp_seconds", GAUGE,             \
      "Unix time of the last token with an invalid signature; 0: none")                            \
    X(GROUPS_OVERAGE, "clairon_groups_overage_total", COUNTER,                                     \
      "Tokens whose provider left out groups")                                                     \
    X(GATE_TURNS, "clairon_loop_turns_total", COUNTER, "Iterations of the event loop")             \
    X(GATE_PROTOCOL_ERRORS, "clairon_gate_protocol_errors_total", COUNTER,                         \
      "Client messages that violated the protocol")                                                \
    X(PUSH_SENT, "clairon_webpush_sent_total", COUNTER, "Web Pushes accepted by push services")    \
    X(PUSH_DENIED_URL, "clairon_webpush_denied_total{reason=\"url\"}", COUNTER,                    \
      STATS_PUSHES_DENIED)                                                                         \
    X(PUSH_DENIED_TITLE, "clairon_webpush_denied_total{reason=\"title\"}", COUNTER,                \
      STATS_PUSHES_DENIED)                                                                         \
    X(PUSH_DENIED_TEXT, "clairon_webpush_denied_total{reason=\"text\"}", COUNTER,                  \
      STATS_PUSHES_DENIED)                                                                         \
    X(PUSH_DENIED_SUBSCRIPTION, "clairon_webpush_denied_total{reason=\"subscription\"}", COUNTER,  \
      STATS_PUSHES_DENIED)                                                                         \
    X(PUSH_REJECTED_400, "clairon_webpush_refused_total{status=\"400\"}", COUNTER, STATS_PUSHES)   \
    X(PUSH_REJECTED_401, "clairon_webpush_refused_total{status=\"401\"}", COUNTER, STATS_PUSHES)   \
    X(PUSH_REJECTED_403, "clairon_webpush_refused_total{status=\"403\"}", COUNTER, STATS_PUSHES)   \
    X(PUSH_REJECTED_413, "clairon_webpush_refused_total{status=\"413\"}", COUNTER, STATS_PUSHES)   \
    X(INTERNAL_ERRORS, "clairon_internal_errors_total", COUNTER,                                   \
      "Sessions, connections and requests ended by an error in the relay's own logic")             \
    X(SINK_SQL_BACKLOG, "clairon_sink_backlog_receipts{sink=\"sql\"}", GAUGE, STATS_SINK_BACKLOG)  \
    X(SINK_WEBHOOK_BACKLOG, "clairon_sink_backlog_receipts{sink=\"webhook\"}", GAUGE,              \
      STATS_SINK_BACKLOG)                                                                          \
    X(SINK_WEBPUSH_BACKLOG, "clairon_sink_backlog_receipts{sink=\"webpush\"}", GAUGE,              \
      STATS_SINK_BACKLOG)                                                                          \
    X(SINK_SQL_OLDEST, "clairon_sink_oldest_seconds{sink=\"sql\"}", GAUGE, STATS_SINK_OLDEST)      \
    X(SINK_WEBHOOK_OLDEST, "clairon_sink_oldest_seconds{sink=\"webhook\"}", GAUGE,                 \
      STATS_SINK_OLDEST)                                                                           \
    X(SINK_WEBPUSH_OLDEST, "clairon_sink_oldest_seconds{sink=\"webpush\"}", GAUGE,                 \
      STATS_SINK_OLDEST)                                                                           \
    X(SINK_SQL_RECEIPTS, "clairon_sink_receipts_total{sink=\"sql\"}", COUNTER,                     \
      STATS_SINK_RECEIPTS)                                                                         \
    X(SINK_WEBHOOK_RECEIPTS, "clairon_sink_receipts_total{sink=\"webhook\"}", COUNTER,             \
      STATS_SINK_RECEIPTS)                                                                         \
    X(SINK_SQL_FAILURES, "clairon_sink_failures_total{sink=\"sql\"}", COUNTER,                     \
      STATS_SINK_FAILURES)                                                                         \
    X(SINK_WEBHOOK_FAILURES, "clairon_sink_failures_total{sink=\"webhook\"}", COUNTER,             \
      STATS_SINK_FAILURES)                                                                         \
    X(SINK_WEBPUSH_FAILURES, "clairon_sink_failures_total{sink=\"webpush\"}", COUNTER,             \
      STATS_SINK_FAILURES)                                                                         \
    X(SINK_SQL_SUCCESS, "clairon_sink_last_success_timestamp_seconds{sink=\"sql\"}", GAUGE,        \
      STATS_SINK_SUCCESS)                                                                          \
    X(SINK_WEBHOOK_SUCCESS, "clairon_sink_last_success_timestamp_seconds{sink=\"webhook\"}",       \
      GAUGE, STATS_SINK_SUCCESS)                                                                   \
    X(SINK_WEBPUSH_SUCCESS, "clairon_sink_last_success_timestamp_seconds{sink=\"webpush\"}",       \
      GAUGE, STATS_SINK_SUCCESS)                                                                   \
    X(SINK_SQL_DROPPED, "clairon_sink_dropped_total{sink=\"sql\"}", COUNTER, STATS_SINK_DROPPED)   \
    X(SINK_WEBHOOK_DROPPED, "clairon_sink_dropped_total{sink=\"webhook\"}", COUNTER,               \
      STATS_SINK_DROPPED)                                                                          \
    X(SINK_WEBPUSH_DROPPED, "clairon_sink_dropped_total{sink=\"webpush\"}", COUNTER,               \
      STATS_SINK_DROPPED)                                                                          \
    X(SINK_SQL_REJECTED, "clairon_sink_rejected_total{sink=\"sql\"}", COUNTER,                     \
      "Receipts that the destination of a sink does not accept")                                   \
    X(SINK_WEBHOOK_OFF, "clairon_sink_off{sink=\"webhook\"}", GAUGE,                               \
      "1 while a sink is switched off: its endpoint has replied 410 Gone")                         \
    X(LOG_LOST, "clairon_log_lines_lost_total", COUNTER, "Log lines dropped")

enum metric {
#define STATS_ENUM(name, metric, kind, help) STAT_##name,
    STATS_LIST(STATS_ENUM)
#undef STATS_ENUM
        STAT_COUNT
};

#define STATS_SCRIPTS "Round-trip time of a script or transaction"
/* X(name in enum, Prometheus name, help) */
#define TIMES_LIST(X)                                                                              \
    X(DECODED, "clairon_decoded_seconds",                                                          \
      "Time from commit until the feed has received the transaction")                              \
    X(STORED, "clairon_stored_seconds",                                                            \
      "Time from a batch's first commit until the store has replied")                              \
    X(SENT, "clairon_sent_seconds",                                                                \
      "Time from commit until the notification was written to a client's socket")                  \
    X(ACKED, "clairon_acked_seconds", "Time from commit until a client's acknowledgement")         \
    X(ROWS, "clairon_rows_query_seconds", "Duration of a query for the rows of a live rule")       \
    X(SCRIPT_INGEST, "clairon_store_script_seconds{script=\"ingest\"}", STATS_SCRIPTS)             \
    X(SCRIPT_REPORT, "clairon_store_script_seconds{script=\"report\"}", STATS_SCRIPTS)             \
    X(SCRIPT_ACK, "clairon_store_script_seconds{script=\"ack\"}", STATS_SCRIPTS)                   \
    X(SCRIPT_DUE, "clairon_store_script_seconds{script=\"due\"}", STATS_SCRIPTS)                   \
    X(SCRIPT_OTHER, "clairon_store_script_seconds{script=\"other\"}", STATS_SCRIPTS)

enum time_of {
#define TIMES_ENUM(name, metric, help) TIME_##name,
    TIMES_LIST(TIMES_ENUM)
#undef TIMES_ENUM
        TIME_COUNT
};

/* Durations in fixed buckets. */

/* Upper bounds in microseconds, and as Prometheus labels in seconds. */
#define HISTOGRAM_STEPS(X)                                                                         \
    X(500, "0.0005")                                                                               \
    X(1000, "0.001")                                                                               \
    X(2500, "0.0025")                                                                              \
    X(5000, "0.005")                                                                               \
    X(10000, "0.01")                                                                               \
    X(25000, "0.025")                                                                              \
    X(50000, "0.05")                                                                               \
    X(100000, "0.1")                                                                               \
    X(250000, "0.25")                                                                              \
    X(500000, "0.5")                                                                               \
    X(1000000, "1")                                                                                \
    X(2500000, "2.5")                                                                              \
    X(5000000, "5")                                                                                \
    X(10000000, "10")                                                                              \
    X(30000000, "30")                                                                              \
    X(60000000, "60")                                                                              \
    X(300000000, "300")

#define HISTOGRAM_ONE(end_us, text) +1 /* NOLINT(bugprone-macro-parentheses): their sum is used */
#define HISTOGRAM_STEP_COUNT (HISTOGRAM_STEPS(HISTOGRAM_ONE))

struct histogram {
    uint64_t counts[HISTOGRAM_STEP_COUNT + 1]; /* not cumulative; the last bucket is +Inf */
    uint64_t sum_us;
};

/*
 * Costs at most one comparison per bucket, so it is suitable for hot paths. A negative duration
 * counts as 0.
 */
void histogram_add(struct histogram *histogram, int64_t elapsed_us);

/* Metrics of one process, in memory that all workers share. */
struct stats {
    uint64_t values[STAT_COUNT];
    struct histogram times[TIME_COUNT];
    bool is_dead;            /* the worker is not running */
    int64_t heartbeat_us;    /* last heartbeat of the worker's loop; monotonic */
    const struct stats *all; /* metrics of all workers; NULL: a single process */
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

/* Adds a duration in microseconds. Clocks may differ, so a negative duration counts as 0. */
static inline void
stats_time(struct stats *stats, enum time_of what, int64_t elapsed_us)
{
    histogram_add(&stats->times[what], elapsed_us);
}

/* Resets the gauges of a dead worker, and keeps its counters. */
void stats_reset_gauges(struct stats *stats);

/* The merged value of all workers (enum stats_kind). */
uint64_t stats_total(const struct stats *stats, enum metric stat);

/* Writes {"clairon_...":0,...}. */
MUST_CHECK enum rc stats_write_json(const struct stats *stats, struct buffer *out);

/* Writes all metrics and the build in Prometheus' text format, with HELP and TYPE. */
MUST_CHECK enum rc stats_write(const struct stats *stats, struct buffer *out);

#endif
