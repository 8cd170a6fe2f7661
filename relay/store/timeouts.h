/*
 * timeouts.h: the times of the store's connections, and the intervals of periodic work.
 *
 * What happens when a server stops replying, in seconds from the first request without a reply, or
 * from the last reply, if that arrived later. An idle link sends PING after LINK_PING_S, so there
 * is such a request.
 *
 *    1  in a cluster, the link moves if its shard is found on another server (LINK_SLOW_S); with
 *       sentinels it does so immediately
 *    3  the link searches for that server, several times a second (LINK_SEARCH_S, SERVERS_*)
 *    3  in a cluster, the link goes down and reconnects with backoff (LINK_NODE_TIMEOUT_S); the
 *       store comes up without the shard (REGROUP_TOGETHER_S)
 *    3  notifications of other shards no longer wait for those of the shard (READER_ORDER_WAIT_S)
 *    8  the reader's connection goes down: it has missed four heartbeats (READER_TIMEOUT_S)
 *   10  without a cluster, the link goes down and reconnects with backoff (LINK_TIMEOUT_S)
 *
 * If the connection breaks, the link goes down and searches immediately, and the other steps follow
 * as above. After LINK_LASTING_S a failover or a moving slot is logged as a warning. A relay that
 * did not run for LINK_PAUSED_US checks again where the keys of its shards are.
 */
#ifndef CLAIRON_STORE_TIMEOUTS_H
#define CLAIRON_STORE_TIMEOUTS_H

/* A link (link.c). */
#define LINK_WATCHDOG_S 0.25 /* other shards wait for a lost node until its next check */
#define LINK_PING_S 1.0
#define LINK_PING_FURTHER_S 5.0 /* links to the other shards of a connection (topology.h) */
#define LINK_SLOW_S 1.0
#define LINK_SEARCH_S 3.0       /* longer than the store's heartbeat interval */
#define LINK_NODE_TIMEOUT_S 3.0 /* only in a cluster: other shards continue without this node */
#define LINK_TIMEOUT_S 10.0
#define LINK_BACKOFF_BASE_MS 100
#define LINK_BACKOFF_CAP_MS 5000
#define LINK_MOVE_CAP_MS 1000  /* upper bound of the backoff if failovers are automatic */
#define LINK_POLL_S 0.2        /* interval while the server loads its dataset or runs a script */
#define LINK_PAUSED_US 5000000 /* the process did not run, so it missed heartbeats */
#define LINK_LASTING_S 5       /* longer than most moves and failovers */

/* The search for servers (servers.c). */
#define SERVERS_REFRESH_S 10.0 /* interval of the queries while no link searches */
#define SERVERS_SEARCH_BASE_MS 100
#define SERVERS_SEARCH_CAP_MS 500
#define SERVERS_QUERY_TIMEOUT_S 1.0
#define SERVERS_FAILED_US 3000000 /* a command ends */
/* a shard that returns to its former server in this time has not moved: the nodes disagree */
#define SERVERS_DISAGREE_US 10000000
#define SENTINEL_SUBSCRIBE_TIMEOUT_S 3.0
#define SENTINEL_RECONNECT_S 1.0

/* The check of a shard's keys (shard.c). */
#define PLACE_VERIFY_AGAIN_S 2.0
#define PLACE_COUNT_TIMEOUT_S 1.0

/* The shards that the store works with (store.c): the shards of a node fail and return together. */
#define REGROUP_TOGETHER_S 0.5

/* Periodic work (maintenance.c). */
#define MAINTENANCE_HEARTBEAT_S 2.0
#define MAINTENANCE_TRIM_S 60.0
#define MAINTENANCE_DUE_S 0.25
#define MAINTENANCE_DUE_MAX_S 2.0  /* upper bound of the interval, without its jitter of 20 % */
#define MAINTENANCE_DUE_ALL_S 60.0 /* every relay, without a lease */
#define MAINTENANCE_LEASE_MS 1500
#define MAINTENANCE_LEASE_S 0.5 /* a third of it */

/*
 * The reader (reader.c). By READER_ORDER_WAIT_S another feed has written the missing notifications.
 */
#define READER_TIMEOUT_S (4 * MAINTENANCE_HEARTBEAT_S)
#define READER_ORDER_WAIT_S 3
#define READER_ORDER_CHECK_S 0.5

/* Acknowledged writes: their replicas (replicas.c), and their disk. */
#define REPLICAS_POLL_S 0.1
#define REPLICAS_WARN_AFTER_US 5000000
#define REPLICAS_REPORT_US 2000000 /* replicas report within this time */
/* longest waits; those of a request are shorter than STORE_TIMEOUT_US of http1.c */
#define REPLICAS_PUBLISH_US 8000000
#define REPLICAS_RECEIPTS_US 8000000
#define REPLICAS_CUTOFF_US 2000000
#define REPLICAS_SINK_US 10000000    /* then the wait begins again */
#define STORE_FSYNC_DELAY_US 2000000 /* twice the interval of appendfsync everysec */

#endif
