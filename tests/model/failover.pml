/*
 * failover.pml: the cursors of relays and of a client over a failover of one shard, for spin.
 *
 * OLD is the primary at first. At any moment, its replica NEW becomes the primary with a prefix of OLD's stream: the id
 * of its last entry is the fork. OLD may still add entries after that, from requests in its socket buffers, for as long
 * as it is not demoted; its clock may be before or after that of NEW. Rows that NEW lacks are stored again by the feed,
 * as any later row of NEW.
 *
 * Each relay has a reader (XREAD) and a connection for pages, which follow the failover at different moments, also long
 * after it: the relay was paused. The client has one cursor (`pos`), and resumes with it on any relay. The assertion: at
 * any moment each entry of NEW before that cursor was received, or a gap was announced.
 *
 * A cursor is (generation, id). Generation OLD ends at the fork: store/entry.h.
 *
 *   -DFORMER_RULE    cursors have no generation, and hello.lua raises the last id of NEW to the newest id of the relay
 *   -DANY_PAGE       a page counts although its server is not the one that the reader reads
 *   -DNO_CLAMP       a cursor of an earlier generation is not limited to the end of that generation
 */
#ifndef IDS
#define IDS 3 /* ids are 1 .. IDS */
#endif
#define OLD 0
#define NEW 1
#define NOBODY 2

bool entry[10];             /* the streams of both servers */
#define ENTRY(server, id) entry[(server) * (IDS + 1) + (id)]
byte last[2];               /* newest id of each server */
byte fork = IDS + 1;        /* no failover yet: all entries are common */
bool is_promoted, is_demoted;

/* of each relay */
byte reader[2], pages[2];   /* the servers of its connections */
byte newest_generation[2], newest[2]; /* hub->newest */

byte pos_generation, pos;   /* the client's cursor */
byte client = NOBODY;       /* the relay of its session */
bool is_live, has_gap;
bool received[IDS + 1];     /* entries that NEW has or will have */
byte resumes;

#ifdef FORMER_RULE
#define GENERATION(server, id) 0
#else
#define GENERATION(server, id) ((server) == NEW && (id) > fork)
#endif
#if defined(FORMER_RULE) || defined(NO_CLAMP)
#define POSITION(server, generation, id) (id)
#else
#define POSITION(server, generation, id) ((server == NEW && generation == OLD && id > fork) -> fork : id)
#endif
#ifdef ANY_PAGE
#define PAGE_COUNTS(relay) true
#else
#define PAGE_COUNTS(relay) (pages[relay] == reader[relay])
#endif
#define IS_BEFORE(g, a, h, b) ((g) < (h) || ((g) == (h) && (a) < (b)))

/* The first entry of a server after `from`; 0: none. */
inline find_next(server, from, found) {
    found = from + 1;
    do
    :: found > IDS -> found = 0; break
    :: found <= IDS && ENTRY(server, found) -> break
    :: else -> found++
    od
}

/* The session writes the entry to its socket; its client may resume from there. */
inline deliver(server, id) {
    if :: server == NEW || id <= fork -> received[id] = true :: else -> skip fi;
    pos_generation = GENERATION(server, id);
    pos = id
}

active proctype Servers() {
    byte id;
    do
    :: atomic { !is_demoted && last[OLD] < IDS -> /* XADD; ids may be skipped, as by a fast clock */
        select(id : last[OLD] + 1 .. IDS);
        last[OLD] = id; ENTRY(OLD, id) = true; id = 0 }
    :: atomic { is_promoted && last[NEW] < IDS ->
        select(id : last[NEW] + 1 .. IDS);
        last[NEW] = id; ENTRY(NEW, id) = true; id = 0 }
    :: atomic { !is_promoted ->
        is_promoted = true;
        select(fork : 0 .. last[OLD]);
        id = 1;
        do
        :: id <= fork -> ENTRY(NEW, id) = ENTRY(OLD, id); id++
        :: id > fork && id <= IDS -> received[id] = false; id++ /* lost, if OLD had it */
        :: id > IDS -> break
        od;
        last[NEW] = fork; id = 0 }
    :: atomic { is_promoted && !is_demoted -> is_demoted = true }
    od
}

active [2] proctype Relay() {
    byte self = _pid - 1, id, after, server;
    do
    /* XREAD replies. */
    :: atomic { reader[self] == NEW || !is_demoted ->
        after = POSITION(reader[self], newest_generation[self], newest[self]);
        find_next(reader[self], after, id);
        if
        :: id != 0 ->
            newest_generation[self] = GENERATION(reader[self], id);
            newest[self] = id;
            if :: client == self && is_live -> deliver(reader[self], id) :: else -> skip fi
        :: else -> skip
        fi;
        id = 0; after = 0 }
    /* The connections follow the failover. */
    :: atomic { is_promoted && reader[self] == OLD -> reader[self] = NEW }
    :: atomic { is_promoted && pages[self] == OLD -> pages[self] = NEW;
#ifdef FORMER_RULE
        if :: last[NEW] < newest[self] -> last[NEW] = newest[self] :: else -> skip fi /* XSETID in hello.lua */
#endif
        }
    /* The client connects, or loses its connection. */
    :: atomic { client == NOBODY && resumes < 2 ->
        resumes++; client = self; is_live = false;
        if
#ifdef FORMER_RULE
        :: pos > last[pages[self]] -> has_gap = true /* STORE_RANGE_UNKNOWN */
#else
        :: pos_generation == NEW && reader[self] == OLD -> has_gap = true /* a generation that is not in the history */
#endif
        :: else -> skip
        fi }
    :: atomic { client == self -> client = NOBODY }
    /* A session that catches up reads a page up to the newest entry of the hub. */
    :: atomic { client == self && !is_live && (pages[self] == NEW || !is_demoted) && PAGE_COUNTS(self) ->
            server = pages[self];
            after = POSITION(server, pos_generation, pos);
            find_next(server, after, id);
            if
            :: id != 0 && !IS_BEFORE(newest_generation[self], newest[self], GENERATION(server, id), id) -> deliver(server, id)
            :: else -> is_live = true; /* the session continues with the entries that the reader reads */
                if
                :: IS_BEFORE(pos_generation, pos, newest_generation[self], newest[self]) ->
                    pos_generation = newest_generation[self]; pos = newest[self]
                :: else -> skip
                fi
            fi;
            id = 0; after = 0; server = 0 }
    od
}

/* At any moment. */
active proctype Check() {
    byte id = 1, read_to;
    atomic { is_promoted && !has_gap ->
        do
        :: id <= IDS ->
            read_to = POSITION(NEW, pos_generation, pos);
            assert(!ENTRY(NEW, id) || id > read_to || received[id]);
            id++
        :: else -> break
        od }
}
