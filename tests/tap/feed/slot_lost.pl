# A slot that is lost, made again or moved on: is it said, told to clients, and does the stream go on?
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

# Writes WAL that nobody reads until PostgreSQL gives the slot up.
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

# The relay comes back and tells `$client`, who was connected, that something is gone.
sub told
{
    my ($client, $how) = @_;
    my $back = $relay->client('u1', pos => $client->pos);
    ok(!$back->wait_for('connected')->{resumed}, "$how: nobody is resumed");
    is($back->wait_for('gap')->{why}, 'epoch', "$how: it is told as a gap");
    my $id = insert();
    $back->wait_row($id);
    is((stored())[-1], $id, "$how: and the stream goes on");
    return $back;
}

my $client = $relay->client('u1');
$client->wait_row(insert());

# Quiet WAL is let go of, and a restart after that is no loss.
sql('CREATE TABLE quiet AS SELECT generate_series(1, 1000) n');
wait_confirmed($pg);
my $epoch = $store->execute('HGET', $store->shared('meta'), 'epoch');
$relay->restart;
$client = $relay->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'after quiet WAL was let go, a restart loses nothing');
is($store->execute('HGET', $store->shared('meta'), 'epoch'), $epoch, 'and makes no gap');

# Lost, and the relay may make another.
my $mark = $relay->log_mark;
$relay->stop;
insert();
lose_slot();
$relay->start;
my $log = $relay->wait_for_log(qr/slot is lost.*max_slot_wal_keep_size/, from => $mark);
$relay->wait_ready;
$client = told($client, 'lost, create_slot on');
is(sql('SELECT wal_status FROM pg_replication_slots'), 'reserved', 'there is another slot');

# Lost, and the new one waits for a transaction: what is committed meanwhile is in neither slot.
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
is($early->wait_for('gap')->{why}, 'epoch', 'lost, the new slot waits: told at once');
wait_until('the slot is being made', sub {
    sql(q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '^CREATE_REPLICATION_SLOT' AND state = 'active'}) });
$early->{messages} = [];
insert();
$open->query_safe('COMMIT');
$open->quit;
$relay->wait_ready;
is($early->wait_for('gap')->{why}, 'epoch', 'made at last: what was committed meanwhile is told too');
$early->wait_row(insert());
pass('made at last: and the stream goes on');
$client = $early;

# Lost, and it may not.
wait_confirmed($pg);
$relay->stop;
$relay->configure('feed.create_slot' => 'off');
insert();
lose_slot();
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/pg_drop_replication_slot\('clairon'\).*pg_create_logical_replication_slot/,
    from => $mark);
is(($relay->get('/readyz'))[0], 503, 'lost, create_slot off: not ready');
my $waits = $relay->client('u1', pos => $client->pos);
is($waits->wait_for('gap')->{why}, 'epoch', 'lost, create_slot off: told while it waits');
is(sql('SELECT wal_status FROM pg_replication_slots'), 'lost', 'and the slot is left alone');
insert();
$mark = $relay->log_mark;
sql(q{SELECT pg_drop_replication_slot('clairon')});
$relay->wait_for_log(qr/slot does not exist.*create_slot = on/, from => $mark);
$waits->{messages} = [];
sql(q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->wait_ready;
is($waits->wait_for('gap')->{why}, 'epoch', 'made by hand: what came between is told too');
my $id = insert();
$waits->wait_row($id);
pass('made by hand: and the stream goes on');

# Made again behind the relay's back, on the same timeline.
wait_confirmed($pg);
$relay->stop;
insert();
sql(q{SELECT pg_drop_replication_slot('clairon');
    SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress.*store_lsn=/, from => $mark);
$relay->wait_ready;
$client = told($waits, 'made again');

# Moved on by hand.
wait_confirmed($pg);
$relay->stop;
insert();
sql(q{SELECT pg_replication_slot_advance('clairon', pg_current_wal_lsn())});
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress/, from => $mark);
$relay->wait_ready;
$client = told($client, 'moved on');

# A store restored from a copy older than what PostgreSQL was told.
wait_confirmed($pg);
$store->stop;
my $folder = $store->{folder};
system('cp', '-a', $folder, "$folder.old") == 0 or die 'could not copy the store';
$store->start;
$relay->wait_ready;
$client->wait_row(insert());
wait_confirmed($pg);
$store->stop;
system("rm -rf $folder/* && cp -a $folder.old/. $folder/") == 0 or die 'could not go back';
$mark = $relay->log_mark;
$store->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress.*restored from an old copy/, from => $mark);
$relay->wait_ready;
$client = told($client, 'an old copy of the store');

done_testing();
