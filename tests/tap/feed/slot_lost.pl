# Tests that a lost, recreated or advanced slot is logged and announced as a gap, and that the stream continues.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store(fsync => 'always');
my $relay = Clairon::Test::relay($pg, $store);
my $row   = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$row); return $row }
sub stored { return map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $store->entries }

# Writes WAL that no client reads, until PostgreSQL invalidates the slot.
sub lose_slot
{
    sql(q{ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'});
    $pg->reload;
    wait_until('the slot is lost', sub {
        sql(q{SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()});
        sql('CHECKPOINT');
        sql('SELECT wal_status FROM pg_replication_slots') eq 'lost' });
    sql('ALTER SYSTEM RESET max_slot_wal_keep_size');
    $pg->reload;
    return;
}

# The relay recovers and announces the loss to `$client`.
sub check_gap
{
    my ($client, $how) = @_;
    my $reconnected = $relay->client('u1', pos => $client->pos);
    ok(!$reconnected->wait_for('connected')->{resumed}, "$how: no session resumes");
    is($reconnected->wait_for('gap')->{why}, 'epoch', "$how: a gap is announced");
    my $id = insert();
    $reconnected->wait_row($id);
    is((stored())[-1], $id, "$how: the stream continues");
    return $reconnected;
}

my $client = $relay->client('u1');
$client->wait_row(insert());

# WAL without notifications is confirmed, so a later restart causes no loss.
sql('CREATE TABLE quiet AS SELECT generate_series(1, 1000) n');
wait_confirmed($pg);
my $epoch = $store->execute('HGET', $store->shared('meta'), 'epoch');
$relay->restart;
$client = $relay->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'a restart after WAL without notifications was confirmed causes no loss');
is($store->execute('HGET', $store->shared('meta'), 'epoch'), $epoch,
    'a restart without a loss does not change the epoch');

# A membership of an earlier cluster, between many other keys.
my $stale = $store->shared('members') . ':TEAM:t1';
sub add_stale { $store->execute('SADD', $stale, 'u1'); return }
sub scans { return $store->execute('INFO', 'commandstats') =~ /cmdstat_scan:calls=(\d+)/ ? $1 : 0 }
$store->execute('MSET', map { ($store->shared('other') . ":$_", 'x') } 1 .. 6000);

# The slot is lost, with create_slot on.
my $mark = $relay->log_mark;
$relay->stop;
insert();
lose_slot();
add_stale();
my $scans = scans();
$relay->start;
my $log = $relay->wait_for_log(qr/slot is lost.*max_slot_wal_keep_size/, from => $mark);
$relay->wait_ready;
$client = check_gap($client, 'lost, create_slot on');
is(sql('SELECT wal_status FROM pg_replication_slots'), 'reserved', 'a new slot exists');
is($store->execute('EXISTS', $stale), 0, 'the former memberships are deleted');
cmp_ok(scans() - $scans, '>', 2, 'in steps, because the search reads all keys of the server');

# The deletion was interrupted.
$relay->stop;
add_stale();
$store->execute('HSET', $store->shared('meta'), 'copying', 'delete');
$relay->start;
$relay->wait_ready;
is($store->execute('EXISTS', $stale), 0, 'an interrupted deletion is repeated');
$client = $relay->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'and causes no gap');

# The slot is lost, and the creation of the new slot waits for a transaction: neither slot contains rows that are
# committed during the wait.
wait_confirmed($pg);
$relay->stop;
insert();
lose_slot();
my $open = $pg->background_psql('postgres');
$open->query_safe('BEGIN; SELECT pg_current_xact_id()');
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/lost slot dropped/, from => $mark);
my $early = $relay->client('u1', pos => $client->pos);
is($early->wait_for('gap')->{why}, 'epoch', 'the loss of the slot is announced while the new slot is created');
wait_until('the slot is being created', sub {
    sql(q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '^CREATE_REPLICATION_SLOT' AND state = 'active'}) });
$early->{messages} = [];
insert();
$open->query_safe('COMMIT');
$open->quit;
$relay->wait_ready;
is($early->wait_for('gap')->{why}, 'epoch', 'the loss of rows committed before the new slot exists is announced');
$early->wait_row(insert());
pass('the stream continues from the new slot');
$client = $early;

# The slot is lost, with create_slot off.
wait_confirmed($pg);
$relay->stop;
$relay->configure('feed.create_slot' => 'off');
insert();
lose_slot();
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/pg_drop_replication_slot\('clairon'\).*pg_create_logical_replication_slot/,
    from => $mark);
is(($relay->get('/readyz?need=feed'))[0], 503, 'with create_slot off, the relay has no feed');
my $waits = $relay->client('u1', pos => $client->pos);
is($waits->wait_for('gap')->{why}, 'epoch', 'with create_slot off, the loss is announced while the relay waits');
is(sql('SELECT wal_status FROM pg_replication_slots'), 'lost', 'with create_slot off the slot is unchanged');
insert();
$mark = $relay->log_mark;
$pg->drop_slot('clairon');    # the relay, which retries, may be using it
$relay->wait_for_log(qr/slot does not exist.*create_slot = on/, from => $mark);
$waits->{messages} = [];
sql(q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->wait_ready;
is($waits->wait_for('gap')->{why}, 'epoch', 'the loss of rows committed before the manually created slot is announced');
my $id = insert();
$waits->wait_row($id);
pass('the stream continues from a slot created manually');

# The slot is recreated while the relay is stopped, on the same timeline.
wait_confirmed($pg);
$relay->stop;
insert();
$pg->drop_slot('clairon');
sql(q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr{slot starts beyond the store's progress.*store_lsn="[0-9A-F]+/[0-9A-F]+"}, from => $mark);
$relay->wait_ready;
$client = check_gap($waits, 'recreated');

# The slot is advanced manually.
wait_confirmed($pg);
$relay->stop;
insert();
wait_until('the slot is free', sub { sql('SELECT active FROM pg_replication_slots') eq 'f' });
sql(q{SELECT pg_replication_slot_advance('clairon', pg_current_wal_lsn())});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress/, from => $mark);
$relay->wait_ready;
$client = check_gap($client, 'advanced');

# The store is restored from a copy that is older than the confirmed LSN.
wait_confirmed($pg);
$store->stop;
my $folder = $store->{folder};
system('cp', '-a', $folder, "$folder.old") == 0 or die 'could not copy the store';
$store->start;
$relay->wait_ready;
$client->wait_row(insert());
wait_confirmed($pg);
$store->stop;
system("rm -rf $folder/* && cp -a $folder.old/. $folder/") == 0 or die 'could not restore the store';
$mark = $relay->log_mark;
$store->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress.*restored from an old copy/, from => $mark);
$relay->wait_ready;
$client = check_gap($client, 'an old copy of the store');

done_testing();
