# Tests that the stream continues on a standby with a synchronized failover slot (PostgreSQL 17).
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use Test::More;

plan skip_all => 'PostgreSQL before 17 has no failover slots' if pg_major() < 17;

my $primary = Clairon::Test::postgresql('primary', conf => "synchronized_standby_slots = 'standby'\n");
my $conninfo = $primary->connstr . ' dbname=postgres application_name=standby';
my $standby  = Clairon::Test::standby($primary, conf => <<"CONF");
primary_conninfo = '@{[ $conninfo =~ s/'/''/gr ]}'
sync_replication_slots = on
synchronized_standby_slots = 'missing'
CONF
sub sql { return $primary->safe_psql('postgres', $_[0]) }
sub standby_sql { return $standby->safe_psql('postgres', $_[0]) }

sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT pg_create_logical_replication_slot('clairon', 'clairon', failover => true);
    SELECT pg_create_logical_replication_slot('same', 'clairon')});

# The failover slot is read on the primary.
my $store = Clairon::Test::store(fsync => 'always');
my $both  = sprintf q{host='%s,%s' port=%d,%d dbname=postgres user=relay target_session_attrs=read-write},
  $primary->host, $standby->host, $primary->port, $standby->port;
my $relay = Clairon::Test::relay(undef, $store, conf => { 'feed.conninfo' => $both });
my $client = $relay->client('u1');
sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, $_) for 1 .. 20;
my @notifications = $client->wait_notifications(20);
my @ids   = sql(q{SELECT data::json->'metadata'->>'id'
    FROM pg_logical_slot_peek_changes('same', NULL, NULL)}) =~ /(\S+)/g;
is_deeply([ map { $_->{metadata}{id} } @notifications ], \@ids, 'a failover slot is read on the primary');

# The synchronized slot cannot be read before the promotion.
wait_until('the slot is synchronized', sub {
    standby_sql(q{SELECT synced FROM clairon.status WHERE slot_name = 'clairon'}) eq 't' });
my $early = Clairon::Test::relay($standby, $store, wait => 0);
$early->wait_for_log(qr/PostgreSQL rejected the command" .*synchronized from the primary.*promot/);
pass('a relay that reads the synchronized slot logs the reason');
$early->stop;

# After the primary is lost, the promoted standby sends the remaining rows with the same ids.
kill STOP => $relay->pid;
sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, $_) for 21 .. 40;
@ids = sql(q{SELECT data::json->'metadata'->>'id'
    FROM pg_logical_slot_peek_changes('same', NULL, NULL)}) =~ /(\S+)/g;
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
kill CONT => $relay->pid;
$standby->promote;
$relay->wait_for_log(qr/server notice" .*synchronized_standby_slots/);
pass('a missing standby in synchronized_standby_slots is logged');
$standby->append_conf('postgresql.conf', "synchronized_standby_slots = ''\n");
$standby->reload;
standby_sql(q{INSERT INTO t VALUES (41, 'u1')});
@notifications = $client->wait_notifications(41);
is_deeply([ map { $_->{payload}{after}{id} } @notifications ], [ 1 .. 41 ], 'no row is lost or delivered twice');
is_deeply([ map { $_->{metadata}{id} } @notifications[ 0 .. 39 ] ], \@ids,
    'all rows have the ids that were decoded on the primary');
is(scalar $store->entries, 41, 'each row is stored once');
is($client->gaps, '', 'the client receives no gap');

done_testing();
