# Tests that, with min_replicas, only rows that are on the replicas are confirmed, and a failover loses none of them.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main', conf => "wal_sender_timeout = 2s\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $port    = Clairon::Test::free_port();
my $primary = Clairon::Test::store(fsync => 'always', options => [ '--port', $port ]);
my $replication = Clairon::Test::proxy("127.0.0.1:$port");    # proxy between primary and replica
my $replica = Clairon::Test::store(options => [ '--replicaof', '127.0.0.1', $replication->port ]);
my $address = Clairon::Test::proxy($primary->{socket});   # proxy for the primary's address in the relay's settings
my $relay   = Clairon::Test::relay($pg, $primary,
    conf => { 'store.url' => $address->url('redis'), 'store.min_replicas' => 1, 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $rows   = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows) for 1 .. $_[0] // 1; return $rows }

$client->wait_row(insert(10));
wait_confirmed($pg);
is($replica->stored, 10, 'confirmed rows are on the replica');

# The replica lags.
$replication->freeze;
$client->wait_row(insert(10));
my $behind = sql('SELECT pg_current_wal_lsn()');
$relay->wait_for_log(qr/too few replicas in sync.* replicas=0 min_replicas=1/);
is(sql("SELECT confirmed_flush_lsn < '$behind' FROM pg_replication_slots"), 't',
    'rows that the replica lacks are delivered, not confirmed, and reported');
$replication->thaw;
wait_confirmed($pg, $behind);
pass('the rows are confirmed after they are on the replica');

# The primary fails over to a replica that lacks the last rows. The replica's clock appears to be an hour behind,
# because the ids of the primary's last entries are set ahead.
$replication->freeze;
$primary->execute('XSETID', $_, (int(time * 1000) + 3_600_000) . '-0') for $primary->keys('stream');
$client->wait_row(insert(10));
$primary->kill9;
$replica->execute('REPLICAOF', 'NO', 'ONE');
is($replica->stored, 20, 'the replica lacks the last rows');
$address->target($replica->{socket});
$relay->configure('store.min_replicas' => 0);    # takes effect at the next start of the relay
wait_until('the missing rows are stored again', sub { $replica->stored == 30 });
$client->wait_row(insert(5));
pass('a live client receives rows after the failover');
my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $replica->entries;
is_deeply(\@stored, [ 1 .. $rows ], 'the new primary contains each row once, in order');
my %received;
$received{ $_->{payload}{after}{id} }{ $_->{metadata}{id} } = 1 for $client->notifications;
is_deeply([ sort { $a <=> $b } keys %received ], [ 1 .. $rows ], 'the client receives each row');
is(scalar(grep { keys %$_ != 1 } values %received), 0, 'a row that is delivered again has the same id');
my $pos = $client->pos;
$relay->restart;
$client = $relay->client('u1', pos => $pos);
ok($client->wait_for('connected')->{resumed}, 'a client resumes from a cursor after the failover');
wait_confirmed($pg);
pass('all rows are confirmed at the end');

open my $file, '<', $pg->logfile or die $!;
is(scalar(grep { /replication timeout/ } <$file>), 0, 'the connection survives wal_sender_timeout');

done_testing();
