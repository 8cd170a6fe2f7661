# With replicas asked for: is nothing confirmed that they lack, and what does a failover to one lose?
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
my $wire    = Clairon::Test::proxy("127.0.0.1:$port");    # between the two
my $replica = Clairon::Test::store(options => [ '--replicaof', '127.0.0.1', $wire->port ]);
my $address = Clairon::Test::proxy($primary->{socket});   # where the relay believes the primary
my $relay   = Clairon::Test::relay($pg, $primary,
    conf => { 'store.url' => $address->url('redis'), 'store.min_replicas' => 1, 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $rows   = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows) for 1 .. $_[0] // 1; return $rows }

$client->wait_row(insert(10));
wait_confirmed($pg);
is($replica->stored, 10, 'what is confirmed is on the replica');

# The replica falls behind.
$wire->freeze;
$client->wait_row(insert(10));
my $behind = sql('SELECT pg_current_wal_lsn()');
$relay->wait_for_log(qr/0 of \[store\] min_replicas = 1 replicas have what is stored/);
is(sql("SELECT confirmed_flush_lsn < '$behind' FROM pg_replication_slots"), 't',
    'what the replica lacks is shown, and not confirmed, and that is said');
$wire->thaw;
wait_confirmed($pg, $behind);
pass('it is once the replica has it');

# Failover, to a replica that lacks the last rows, and whose clock is behind the primary's: by an
# hour, as the primary's next entries are told.
$wire->freeze;
$primary->execute('XSETID', $_, (int(time * 1000) + 3_600_000) . '-0') for $primary->keys('stream');
$client->wait_row(insert(10));
$primary->kill9;
$replica->execute('REPLICAOF', 'NO', 'ONE');
is($replica->stored, 20, 'the replica lacks the last rows');
$address->target($replica->{socket});
$relay->configure('store.min_replicas' => 0);    # from its next start
wait_until('what the replica lacked is stored again', sub { $replica->stored == 30 });
$client->wait_row(insert(5));
pass('a client that stayed is shown what comes after the failover');
my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $replica->entries;
is_deeply(\@stored, [ 1 .. $rows ], 'the new primary has each row once, in order');
my %shown;
$shown{ $_->{payload}{after}{id} }{ $_->{metadata}{id} } = 1 for $client->notifications;
is_deeply([ sort { $a <=> $b } keys %shown ], [ 1 .. $rows ], 'the client has been shown each');
is(scalar(grep { keys %$_ != 1 } values %shown), 0, 'under one id, also where it was shown again');
my $pos = $client->pos;
$relay->restart;
$client = $relay->client('u1', pos => $pos);
ok($client->wait_for('connected')->{resumed}, 'and a position from after it resumes');
wait_confirmed($pg);
pass('all is confirmed');

open my $file, '<', $pg->logfile or die $!;
is(scalar(grep { /replication timeout/ } <$file>), 0, 'wal_sender_timeout, of 2 s, never hit');

done_testing();
