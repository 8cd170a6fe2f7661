# Tests that another cluster or slot for the same store is rejected until a takeover is requested, which deletes the old
# state.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(failed_checks);
use Test::More;

my ($old, $new) = map { Clairon::Test::postgresql($_) } qw(old new);
$_->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text, audience text);
    SELECT clairon.watch('t', 'TEAM', '=t1')}) for $old, $new;
$old->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'gone'), ('TEAM', 't1', 'stays')});
$new->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'stays')});
# The LSNs of the new cluster are lower than the LSNs of the old cluster.
$old->safe_psql('postgres', 'SELECT pg_switch_wal(); CREATE TABLE more AS SELECT generate_series(1, 1000) n; SELECT pg_switch_wal(); CHECKPOINT');

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($old, $store);
my $client = $relay->client('stays');
$old->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
$client->wait_notifications(1);

$relay->stop;
$relay->configure('feed.conninfo' => $new->connstr('postgres') . ' user=relay');
my $mark = $relay->log_mark;
$relay->start;
is($relay->wait_end >> 8, 3, 'a relay with another cluster exits with 3');
$relay->wait_for_log(qr/level=error .*OTHERSYSTEM \S+progress:clairon belongs to the PostgreSQL cluster \d+, this is cluster \d+ .* DEL that key/, from => $mark);

$store->execute('DEL', $store->keys('progress:clairon'));
$relay->start;
$relay->wait_ready;
my $reconnected = $relay->client('stays', pos => $client->pos);
is($reconnected->wait_for('gap')->{why}, 'epoch', 'after the old progress is deleted, clients receive a gap');
$new->safe_psql('postgres', 'INSERT INTO t VALUES (2)');
$reconnected->wait_row(2);
pass('rows of the new cluster are delivered, although their LSNs are lower');
is_deeply($store->execute('SMEMBERS', $store->key('members:TEAM:t1')), ['stays'], 'members of the old cluster are removed');

# The database has a second slot, which uses the same store.
$relay->stop;
$new->safe_psql('postgres', q{INSERT INTO t VALUES (3); DELETE FROM clairon.member; INSERT INTO clairon.member VALUES ('TEAM', 't1', 'later')});
$relay->configure('feed.slot' => 'second');
my $epoch = $store->execute('HGET', $store->key('meta'), 'epoch');
$mark = $relay->log_mark;
$relay->start;
is($relay->wait_end >> 8, 3, 'a relay with another slot of the same database exits with 3');
$relay->wait_for_log(qr/level=error .*OTHERSLOT .*progress:clairon, not \S+progress:second: .* DEL /, from => $mark);
is($store->execute('HGET', $store->key('meta'), 'epoch'), $epoch, 'the epoch is unchanged');
is($store->execute('EXISTS', $store->key('progress:second')), 0, 'the other slot has no stored progress');
chmod 0600, $relay->{file};
$Clairon::Test::Doctor::relay = $relay;
my $row = failed_checks()->{'store: slot'};
like($row->{detail}, qr/store belongs to another slot: \S+progress:clairon, not \S+progress:second$/, 'the doctor names both slots');
like($row->{hint}, qr/Set \[feed\] slot.*DEL its key/, 'the doctor\'s hint describes both solutions');
$relay->configure('feed.slot' => 'clairon');
$relay->start;
$relay->wait_ready;
$client = $relay->client('later', pos => $reconnected->pos);
ok($client->wait_for('connected')->{resumed}, 'clients of the former slot resume');

# An administrator renames the slot.
$relay->stop;
$store->execute('DEL', $store->keys('progress:clairon'));
$relay->configure('feed.slot' => 'second');
$relay->start;
$relay->wait_ready;
$client = $relay->client('later', pos => $reconnected->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'after the former progress is deleted, clients receive a gap');
is_deeply($store->execute('SMEMBERS', $store->key('members:TEAM:t1')), ['later'],
    'the store contains only the memberships read with the new slot');
$new->safe_psql('postgres', 'INSERT INTO t VALUES (4)');
$client->wait_row(4);
pass('later rows are delivered');

done_testing();
