# Tests a failover to a standby with less WAL, and a lost slot: no later row is skipped, and the loss is announced.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $primary = Clairon::Test::postgresql('primary');
$primary->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'gone'), ('TEAM', 't1', 'stays');
    SELECT clairon.watch('t', 'USER', 'owner')});
my $standby = Clairon::Test::standby($primary);
$primary->wait_for_catchup($standby);
$standby->stop;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($primary, $store);
my $client = $relay->client('u1');
$primary->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(1, 2000) i});
$client->wait_notifications(2000);
$relay->stop;
$primary->stop('immediate');

# These rows are not replicated to the standby. Its slot is created manually.
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->start;
$standby->promote;
$standby->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_for_log(qr/timeline forked/);
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'a failover to less WAL causes a gap');
$standby->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(9001, 9003) i});
is_deeply([ map { $_->{payload}{after}{id} } $client->wait_notifications(3) ], [ 9001 .. 9003 ],
    'later rows are delivered');
is($store->execute('HGET', $store->shared('progress:clairon'), 'timeline'), 2, 'the progress is on the new timeline');

# The slot is dropped while no relay is connected, and the relay recreates it.
$relay->stop;
$standby->drop_slot('clairon');
$standby->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'gone'; INSERT INTO t VALUES (9004, 'u1')});
$relay->start;
$relay->wait_for_log(qr{changes lost with the slot.*slot does not exist" since_lsn="[0-9A-F]+/[0-9A-F]+"});
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
ok(!$client->wait_for('connected')->{resumed}, 'after a lost slot, no session resumes');
is($client->wait_for('gap')->{why}, 'epoch', 'after a lost slot, each session receives a gap');
is_deeply($store->execute('SMEMBERS', $store->shared('members:TEAM:t1')), ['stays'],
    'users who left while no slot existed are no longer members');
$standby->safe_psql('postgres', q{INSERT INTO t VALUES (9005, 'u1')});
is(($client->wait_notifications(1))[0]{payload}{after}{id}, 9005, 'rows written after the slot was recreated are delivered');

# The old primary is started again, and the relay connects to it.
$relay->stop;
$primary->start;
$primary->safe_psql('postgres', q{INSERT INTO t VALUES (5000, 'u1')});
my $mark   = $relay->log_mark;
my $before = $store->stored;
$relay->configure('feed.conninfo' => $primary->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_for_log(qr/on timeline 1, but the store has followed a failover to timeline 2.*DEL \S+:progress:clairon/, from => $mark);
is(($relay->get('/readyz?need=feed'))[0], 503, 'a relay that is connected to an outdated primary has no feed');
$relay->stop;
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'a client resumes, because the progress is unchanged');
is($store->stored, $before, 'no notification of the outdated primary is stored');

# A permanent switch to the old primary is accepted after the progress is deleted.
$relay->stop;
$store->execute('DEL', $_) for $store->keys('progress:clairon');
$relay->configure('feed.conninfo' => $primary->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'a permanent switch to the old primary causes a gap');
# The row may be stored before the client reconnects. In this case it is part of the gap.
wait_until('the row of the old primary is stored',
    sub { grep { $_->{data} =~ /"after":\{"id":5000\b/ } $store->entries });
pass('the rows of the old primary are stored');

done_testing();
