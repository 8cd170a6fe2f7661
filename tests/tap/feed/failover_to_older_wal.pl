# After a failover to a standby with less WAL, or a slot that is gone: is nothing skipped, and the loss told?
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

# The standby never saw those rows. Its slot was made by hand.
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->start;
$standby->promote;
$standby->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_for_log(qr/timeline forked/);
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'a failover to less is told as a gap');
$standby->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(9001, 9003) i});
is_deeply([ map { $_->{payload}{after}{id} } $client->wait_notifications(3) ], [ 9001 .. 9003 ],
    'and what is written after it arrives');
is($store->execute('HGET', $store->shared('progress:clairon'), 'timeline'), 2, 'the progress follows');

# The slot dropped while nobody looks, and made again by the relay.
$relay->stop;
$standby->safe_psql('postgres', q{SELECT pg_drop_replication_slot('clairon');
    DELETE FROM clairon.member WHERE user_id = 'gone'; INSERT INTO t VALUES (9004, 'u1')});
$relay->start;
$relay->wait_for_log(qr/changes lost with the slot.*slot does not exist/);
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
ok(!$client->wait_for('connected')->{resumed}, 'a slot that was lost resumes nobody');
is($client->wait_for('gap')->{why}, 'epoch', 'and is told as a gap');
is_deeply($store->execute('SMEMBERS', $store->shared('members:TEAM:t1')), ['stays'],
    'who left meanwhile is no member any more');
$standby->safe_psql('postgres', q{INSERT INTO t VALUES (9005, 'u1')});
is(($client->wait_notifications(1))[0]{payload}{after}{id}, 9005, 'and life goes on');

# The primary that was thought dead is back, and the relay is led there.
$relay->stop;
$primary->start;
$primary->safe_psql('postgres', q{INSERT INTO t VALUES (5000, 'u1')});
my $mark   = $relay->log_mark;
my $before = $store->stored;
$relay->configure('feed.conninfo' => $primary->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_for_log(qr/on timeline 1, but the store has followed a failover to timeline 2.*DEL clairon:progress:clairon/, from => $mark);
is(($relay->get('/readyz'))[0], 503, 'a primary that was left behind is not read');
$relay->stop;
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
ok($client->wait_for('connected')->{resumed}, 'and has undone nothing');
is($store->stored, $before, 'nor added anything');

# One that is there to stay is taken when the store is told so.
$relay->stop;
$store->execute('DEL', $_) for $store->keys('progress:clairon');
$relay->configure('feed.conninfo' => $primary->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'one that is to stay is a gap');
# Maybe before the client was back: then the gap reaches beyond it.
wait_until('it is read', sub { grep { $_->{data} =~ /"after":\{"id":5000\b/ } $store->entries });
pass('and is read');

done_testing();
