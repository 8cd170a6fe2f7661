// ingest_peer.js: what one would write for it in node: a wal2json slot into a stream, by pg-logical-replication and ioredis.
//
//     node ingest_peer.js MODULES SOCKET_FOLDER PORT USER SLOT STORE_SOCKET STREAM COUNT
//
// Generous to it: it parses each message, writes a line for each change, lets ioredis pipeline what it is given in one turn,
// and waits for no answer before it takes more. Ends when COUNT entries are stored.
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

service.on('data', (lsn, message) => {
    for (const change of message.change || []) {
        const row = {};

        change.columnnames.forEach((name, i) => { row[name] = change.columnvalues[i]; });
        const id = randomUUID();
        const data = JSON.stringify({
            id,
            type: 'NOTIFICATION',
            metadata: { lsn, timestamp: message.timestamp, topic: `${change.schema}.${change.table}` },
            payload: { operation: change.kind, after: row },
        });

        redis.xadd(stream, '*', 'id', id, 'data', data).then(onStored, fail);
    }
});
service.on('error', fail);
service.subscribe(new Wal2JsonPlugin({ includeLsn: true, includeTimestamp: true }), slot).catch(fail);
