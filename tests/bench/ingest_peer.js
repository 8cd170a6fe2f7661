// ingest_peer.js: a typical node pipeline, from a wal2json slot into a stream, with pg-logical-replication and ioredis.
//
//     node ingest_peer.js MODULES SOCKET_FOLDER PORT USER SLOT STORE_SOCKET STREAM COUNT
//
// The pipeline stores the same notification, but does less work: it has no rules and no routing fields, and ids differ
// on every read. ioredis may pipeline commands. The pipeline never waits for a reply, and confirms the slot before the
// store has replied. It ends when COUNT entries are stored.
'use strict';

const { randomUUID } = require('crypto');
const [modules, host, port, user, slot, store, stream, count] = process.argv.slice(2);
const { LogicalReplicationService, Wal2JsonPlugin } = require(`${modules}/pg-logical-replication`);
const Redis = require(`${modules}/ioredis`);

const redis = new Redis(store, { enableAutoPipelining: true });
const service = new LogicalReplicationService(
    { host, port: Number(port), user, database: 'postgres' },
    { acknowledge: { auto: true, timeoutSeconds: 1 } });
let stored = 0;

function fail(error) {
    console.error(error);
    process.exit(1);
}

function onStored() {
    stored += 1;
    if (stored === Number(count))
        service.stop().then(() => process.exit(0));
}

const operations = { insert: 'create', update: 'update', delete: 'delete' };

// Input as PostgreSQL writes it, `2026-01-31 12:34:56.123456+00`; output with six digits.
function isoTime(text) {
    const [, day, time, digits] = /^(\S+) ([\d:]+)(?:\.(\d+))?/.exec(text);

    return `${day}T${time}.${(digits || '').padEnd(6, '0')}Z`;
}

service.on('data', (lsn, message) => {
    const timestamp = isoTime(message.timestamp);

    for (const change of message.change || []) {
        const row = {};

        change.columnnames.forEach((name, i) => { row[name] = change.columnvalues[i]; });
        const id = randomUUID();
        const data = JSON.stringify({
            metadata: {
                id,
                priority: 'NORMAL',
                type: 'REALTIME',
                emitter: 'node',
                source: change.table,
                topic: `postgres.${change.table}`,
                operation: operations[change.kind],
                timestamp,
            },
            payload: { before: null, after: row },
            routing: {
                audience: { type: 'USER', targets: [row.owner] },
                retry: { ack_required: false, enabled: false, attempts: 0, limit: 5, backoff: 'EXPONENTIAL' },
            },
        });

        redis.xadd(stream, '*', 'id', id, 'data', data).then(onStored, fail);
    }
});
service.on('error', fail);
service.subscribe(new Wal2JsonPlugin({ includeLsn: true, includeTimestamp: true }), slot).catch(fail);
