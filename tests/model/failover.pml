/*
 * failover.pml: the cursors of relays and of a client over a failover of one shard, for spin.
 *
 * OLD is the primary at first. At any moment, its replica NEW becomes the primary with a prefix of OLD's stream: the id
 * of its last entry is the fork. OLD may still add entries after that, from requests in its socket buffers, for as long
 * as it is not demoted; its clock may be before or after that of NEW. Rows that NEW lacks are stored again by the feed,
 * as any later row of NEW.
 *
 * Each relay has a reader (XREAD) and a connection for pages, which follow the failover at different moments, also
 * long after it: the relay was paused. The client has one cursor (`pos`), and resumes with it on any relay. The
 * assertion: at any moment each entry of NEW before that cursor was received, or a gap was announced.
 *
 * A cursor is an id of generation OLD, which ends at the fork, or of generation NEW: store/entry.h.
 *
 *   -DFORMER_RULE    cursors have no generation, and hello.lua raises the last id of NEW to the newest id of the relay
 *   -DANY_PAGE       a page counts although its server is not the one that the reader reads
 *   -DNO_LIMIT       a cursor of an earlier generation is not limited to the end of that generation
 */
#ifndef IDS
#define IDS 3 /* ids are 1 .. IDS */
#endif
#define OLD 0
#define NEW 1
#define NOBODY 2
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* A set of entries has one bit for each id. */
#define BIT(id) (1 << (id))
#define UP_TO(id) (BIT((id) + 1) - 1)

byte entries[2], last[2];   /* of each server: the set of its entries, and its newest id */
byte fork = IDS + 1;        /* no failover yet: all entries are common */
bool is_promoted, is_demoted;

byte pos;                   /* the client's cursor */
byte client = NOBODY;       /* the relay of its session */
bool is_live, has_gap;
byte received;              /* the set of entries that NEW has or will have */
byte resumes;
hidden byte id;             /* of one step, so not part of a state */

/* history_label and history_position: a cursor above IDS is of generation NEW */
#define GENERATION (IDS + 1)
#ifdef FORMER_RULE
#define LABEL(server, id) (id)
#else
#define LABEL(server, id) (server == NEW && (id) > fork -> (id) + GENERATION : (id))
#endif
#if defined(FORMER_RULE) || defined(NO_LIMIT)
#define END(server) IDS
#else
#define END(server) (server == NEW -> fork : IDS)
#endif
#define POSITION(server, cursor) ((cursor) > IDS -> (cursor) - GENERATION : MIN(cursor, END(server)))

#ifdef ANY_PAGE
#define PAGE_COUNTS true
#else
#define PAGE_COUNTS (pages == reader)
#endif

inline xadd(server) { /* ids may be skipped, as by a fast clock */
    select(id : last[server] + 1 .. IDS);
    last[server] = id; entries[server] = entries[server] | BIT(id)
}

/* The first entry of a server after a cursor; above IDS: none. */
inline find_next(server, cursor) {
    id = POSITION(server, cursor) + 1;
    do :: id > IDS || entries[server] & BIT(id) -> break :: else -> id++ od
}

/* The session writes the entry to its socket; its client may resume from there. */
inline deliver(server) {
    if :: server == NEW || id <= fork -> received = received | BIT(id) :: else fi;
    pos = LABEL(server, id)
}

active [2] proctype Relay() {
    byte reader = OLD, pages = OLD, newest; /* the servers of its connections; hub->newest */
    do
    /* XREAD replies. */
    :: atomic { reader == NEW || !is_demoted ->
        find_next(reader, newest);
        if :: id <= IDS -> newest = LABEL(reader, id) :: else fi;
        if :: id <= IDS && client == _pid && is_live -> deliver(reader) :: else fi }
    /* The connections follow the failover. */
    :: atomic { is_promoted && reader == OLD -> reader = NEW }
    :: atomic { is_promoted && pages == OLD -> pages = NEW;
#ifdef FORMER_RULE
        last[NEW] = MAX(last[NEW], newest) /* XSETID in hello.lua */
#endif
        }
    /* The client connects, or loses its connection. */
    :: atomic { client == NOBODY && resumes < 2 ->
        resumes++; client = _pid; is_live = false;
#ifdef FORMER_RULE
        has_gap = has_gap || pos > last[pages] /* STORE_RANGE_UNKNOWN */
#else
        has_gap = has_gap || (pos > IDS && reader == OLD) /* a generation that is not in the history */
#endif
        }
    :: atomic { client == _pid -> client = NOBODY }
    /* A session that catches up reads a page up to the newest entry of the hub. Then it continues with the reader. */
    :: atomic { client == _pid && !is_live && (pages == NEW || !is_demoted) && PAGE_COUNTS ->
        find_next(pages, pos);
        if
        :: id <= IDS && LABEL(pages, id) <= newest -> deliver(pages)
        :: else -> is_live = true; pos = MAX(pos, newest)
        fi }
    od
}

active proctype Servers() {
    do
    :: atomic { !is_demoted && last[OLD] < IDS -> xadd(OLD) }
    :: atomic { is_promoted && last[NEW] < IDS -> xadd(NEW) }
    :: atomic { !is_promoted ->
        is_promoted = true;
        select(fork : 0 .. last[OLD]);
        last[NEW] = fork; entries[NEW] = entries[OLD] & UP_TO(fork); received = received & UP_TO(fork) }
    :: atomic { is_promoted && !is_demoted -> is_demoted = true }
    :: atomic { is_promoted && !has_gap -> assert(!(entries[NEW] & UP_TO(POSITION(NEW, pos)) & ~received)) }
    od
}
