# Another cluster behind the same store, as after pg_upgrade or a restored dump: is it refused, and taken once it may be, without a trace of the old one?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my ($old, $new) = map { Clairon::Test::postgresql($_) } qw(old new);
$_->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text, audience text);
    SELECT clairon.watch('t', 'TEAM', '=t1')}) for $old, $new;
$old->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'gone'), ('TEAM', 't1', 'stays')});
$new->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'stays')});
# Positions of the new one are before those of the old.
$old->safe_psql('postgres', 'SELECT pg_switch_wal(); CREATE TABLE more AS SELECT generate_series(1, 1000) n; SELECT pg_switch_wal(); CHECKPOINT');

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($old, $store);
my $client = $relay->client('stays');
$old->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
$client->wait_notes(1);

$relay->stop;
$relay->configure('feed.conninfo' => $new->connstr('postgres') . ' user=relay');
my $mark = $relay->log_mark;
$relay->start;
is($relay->wait_end >> 8, 3, 'another cluster is refused: the relay exits');
$relay->wait_for_log(qr/level=error .*OTHERSYSTEM \S+progress:clairon belongs to the PostgreSQL cluster \d+, this is cluster \d+ .* DEL that key/, from => $mark);

$store->ask('DEL', $store->keys('progress:clairon'));
$relay->start;
$relay->wait_ready;
my $back = $relay->client('stays', pos => $client->pos);
is($back->wait_for('gap')->{why}, 'epoch', 'and taken once the old progress is gone: clients are told');
$new->safe_psql('postgres', 'INSERT INTO t VALUES (2)');
$back->wait_row(2);
pass('what is written there arrives, at positions that the old one had passed');
is_deeply($store->ask('SMEMBERS', $store->key('members:TEAM:t1')), ['stays'], 'who was a member of the old one is none here');

# A slot of another name in the same store is no other thing.
$relay->stop;
$new->safe_psql('postgres', q{INSERT INTO t VALUES (3); DELETE FROM clairon.member; INSERT INTO clairon.member VALUES ('TEAM', 't1', 'later')});
$relay->configure('feed.slot' => 'second');
$relay->start;
$relay->wait_ready;
$client = $relay->client('later', pos => $back->pos);
is($client->wait_for('gap')->{why}, 'epoch', 'a slot of another name: clients are told of what it lacks');
is_deeply($store->ask('SMEMBERS', $store->key('members:TEAM:t1')), ['later'], 'and memberships are those of now');
$new->safe_psql('postgres', 'INSERT INTO t VALUES (4)');
$client->wait_row(4);
pass('and the stream goes on');

done_testing();
