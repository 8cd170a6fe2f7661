# Tests that a slot invalidated by idle_replication_slot_timeout (PostgreSQL 18) is logged, announced and recreated, on
# a primary and on its standby.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use Test::More;

plan skip_all => 'PostgreSQL before 18 has no idle_replication_slot_timeout' if pg_major() < 18;

my $primary = Clairon::Test::postgresql('primary');
$primary->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $standby = Clairon::Test::standby($primary);

my $row = 0;
sub insert { $primary->safe_psql('postgres', sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$row); return $row }

for my $server ($primary, $standby)
{
    my $name  = $server->name;
    my $relay = Clairon::Test::relay($server, Clairon::Test::store(fsync => 'always'), conf => {
        'feed.primary_conninfo' => $primary->connstr('postgres') . ' user=relay' });
    my $client = $relay->client('u1');
    $client->wait_row(insert());
    my $pos = $client->pos;
    $relay->stop;

    # Only a checkpoint invalidates idle slots.
    $server->append_conf('postgresql.conf', "idle_replication_slot_timeout = 1s\n");
    $server->reload;
    wait_until("$name invalidates the slot", sub {
        $primary->safe_psql('postgres', 'CHECKPOINT');
        $server->safe_psql('postgres', 'CHECKPOINT');
        $server->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots
            WHERE slot_name = 'clairon' AND invalidation_reason = 'idle_timeout'}) == 1 });
    is($server->safe_psql('postgres', q{SELECT lost_because FROM clairon.status WHERE slot_name = 'clairon'}),
        'idle_timeout', "$name: clairon.status contains the reason");
    like($server->safe_psql('postgres', q{SELECT detail, hint FROM clairon.doctor() WHERE NOT ok AND check_name = 'slot clairon'}),
        qr/^lost: idle_timeout\|Set idle_replication_slot_timeout = 0: then SELECT pg_drop_replication_slot/, "$name: the doctor prints the hint");

    like($server->safe_psql('postgres', q{SELECT detail, hint FROM clairon.doctor() WHERE NOT ok AND check_name = 'idle_replication_slot_timeout'}),
        qr/^inactive slots are invalidated after 1 s\|ALTER SYSTEM SET idle_replication_slot_timeout = 0;/, "$name: the doctor warns about the setting");

    my $lost = insert();
    $server->append_conf('postgresql.conf', "idle_replication_slot_timeout = 0\n");
    $server->reload;
    my $mark = $relay->log_mark;
    $relay->start;
    $relay->wait_for_log(qr/component=feed level=error .*slot is lost.*idle for longer than idle_replication_slot_timeout/, from => $mark);
    pass("$name: the relay logs the invalidation");
    $relay->wait_for_log(qr/lost slot dropped.*slot created/s, from => $mark);
    $relay->wait_ready;
    $client = $relay->client('u1', pos => $pos);
    is($client->wait_for('gap')->{why}, 'epoch', "$name: the slot is recreated, and clients receive a gap");
    $client->wait_row(insert());
    ok(!grep({ $_->{payload}{after}{id} == $lost } $client->notifications), "$name: only rows committed after the loss are delivered");
    $relay->stop;
}

done_testing();
