# Tests that the relay and the doctor reject another database for a store prefix and report both names, until a takeover
# is requested.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Doctor qw(failed_checks);
use Test::More;

my $pg    = Clairon::Test::postgresql('main', conf => "max_slot_wal_keep_size = 1GB\n");
my $store = Clairon::Test::store();
$pg->safe_psql('postgres', 'CREATE DATABASE other; CREATE DATABASE third');
$pg->safe_psql('other', 'CREATE EXTENSION clairon');
for my $database (qw(postgres other))
{
    $pg->safe_psql($database, q{CREATE TABLE t (id int PRIMARY KEY); SELECT clairon.watch('t', 'ROLE', '=admin')});
}
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'ours')});
$pg->safe_psql('other',    q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'theirs')});

my $shards = $store->shards;
sub meta { return $store->execute('HGET', $store->key('meta'), $_[0]) }
sub progress { return $store->key("progress:$_[0]") }
sub set_database
{
    my ($relay, $database, $slot) = @_;
    $relay->configure('feed.conninfo' => $pg->connstr($database) . ' user=relay', 'feed.slot' => $slot);
    return;
}
sub check_rejected
{
    my ($relay, $what) = @_;
    my $mark = $relay->log_mark;
    $relay->start;
    is($relay->wait_end >> 8, 3, "$what: the relay exits with 3");
    my $log = $relay->log_text($mark);
    like($log, qr/level=error .*OTHERDATABASE \S+progress:clairon belongs to database \S*"postgres\S*" \(oid \d+\), this is database \S*"other\S*" \(oid \d+\)/,
        "$what: the log contains both names");
    like($log, qr/DEL that key/, "$what: the log describes the takeover");
    return;
}

my $relay  = Clairon::Test::relay($pg, $store, conf => { 'gate.max_connections' => 100 });
my $client = $relay->client('ours');
$pg->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
$client->wait_row(1);
my $before = () = $store->entries;

# A slot belongs to one database, so the other database has another slot.
my $second = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.max_connections' => 100 });
$second->stop;
$second->configure('relay.roles' => 'feed,gate');
set_database($second, 'other', 'other');
check_rejected($second, 'another database of the cluster');
is(scalar(() = $store->entries), $before, 'nothing is stored');
is($store->execute('EXISTS', progress('other')), 0, 'no progress is stored');
is($pg->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'other'}), 0, 'no slot remains');
is_deeply($store->execute('SMEMBERS', $store->key('members:ROLE:admin')), ['ours'], 'memberships are unchanged');
$pg->safe_psql('postgres', 'INSERT INTO t VALUES (2)');
$client->wait_row(2);
pass('the first relay still delivers rows');

chmod 0600, $second->{file};
$Clairon::Test::Doctor::relay = $second;
my $row = failed_checks()->{'store: database'};
like($row->{detail}, qr/belongs to database "postgres" \(oid \d+\) of cluster \d+; \[feed\] conninfo names database "other"/, 'the doctor names both databases');
like($row->{hint}, qr/another \[store\] prefix.*DEL that key/, 'the doctor\'s hint describes both solutions');
$Clairon::Test::Doctor::relay = $relay;
is(failed_checks()->{'store: database'}, undef, 'the doctor accepts the database that the store serves');

# With several workers, no worker runs without the feed.
$second->configure('gate.workers' => 2);
check_rejected($second, 'with workers');
$second->configure('gate.workers' => undef);

# The relay accepts a renamed database.
$relay->stop;
$pg->safe_psql('other', 'ALTER DATABASE postgres RENAME TO renamed');
set_database($relay, 'renamed', 'clairon');
$relay->start;
$relay->wait_ready;
pass('a renamed database is accepted');
$relay->stop;
$pg->safe_psql('other', 'ALTER DATABASE renamed RENAME TO postgres');
set_database($relay, 'postgres', 'clairon');
$relay->restart;

# A requested takeover deletes the old state.
$relay->stop;
$store->execute('DEL', $store->keys('progress:clairon'));
$second->start;
$second->wait_ready;
my $theirs = $second->client('theirs', pos => $client->pos);
is($theirs->wait_for('gap')->{why}, 'epoch', 'after the old progress is deleted, clients receive a gap');
is_deeply($store->execute('SMEMBERS', $store->key('members:ROLE:admin')), ['theirs'],
    'the store contains only the memberships of the new database');
$pg->safe_psql('other', 'INSERT INTO t VALUES (7)');
$theirs->wait_row(7);
pass('notifications of the new database are delivered');

done_testing();
