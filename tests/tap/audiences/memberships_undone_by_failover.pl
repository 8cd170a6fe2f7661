# Tests a failover that undoes membership changes: the table on the new primary determines the memberships.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

sub rows { my ($client) = @_; return [ map { $_->{payload}{after}{id} } $client->notifications ] }

for my $shards (1, 4)
{
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    my $primary = Clairon::Test::postgresql("primary$shards");
    $primary->safe_psql('postgres', q{
        CREATE TABLE t (id int PRIMARY KEY, team text);
        INSERT INTO clairon.member VALUES ('TEAM', 't1', 'stays'), ('TEAM', 't1', 'leaves');
        SELECT clairon.watch('t', 'TEAM', 'team')});
    my $standby = Clairon::Test::standby($primary, name => "standby$shards");
    my $store   = Clairon::Test::store();
    my $feed    = Clairon::Test::relay($primary, $store);
    my $gate    = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.ping' => '1h' });
    my $members = sub { return join ' ', sort @{ $store->execute('SMEMBERS', $store->shared('members:TEAM:t1')) } };

    my %clients = map { $_ => $gate->client($_) } qw(stays leaves comes);
    $primary->safe_psql('postgres', q{INSERT INTO t VALUES (1, 't1')});
    $clients{$_}->wait_row(1) for qw(stays leaves);
    my $written = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    wait_until('the slot is confirmed', sub {
        $primary->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$written' FROM pg_replication_slots WHERE slot_type = 'logical'") eq 't' });
    # Writes the slot to disk, so that the test can copy it as failover tools do.
    $primary->safe_psql('postgres', 'CHECKPOINT');
    my $slot = $primary->basedir . '/slot';
    system('cp', '-a', $primary->data_dir . '/pg_replslot/clairon', $slot) == 0 or die 'could not copy the slot';
    # The copied slot sends the changes again.
    $primary->safe_psql('postgres', q{INSERT INTO t VALUES (10, 't1'); SELECT clairon.notify('USER', '{stays}', '{"after": {"id": 11}}')});
    $clients{stays}->wait_row($_) for 10, 11;
    $primary->wait_for_catchup($standby);
    $standby->stop;
    system('cp', '-a', $slot, $standby->data_dir . '/pg_replslot/clairon') == 0 or die 'could not copy the slot';

    # Changes that are not replicated to the standby.
    $primary->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'comes');
        DELETE FROM clairon.member WHERE user_id = 'leaves'; INSERT INTO t VALUES (2, 't1')});
    $clients{$_}->wait_row(2) for qw(stays comes);
    is($members->(), 'comes stays', 'the store has the changes');
    $feed->stop;
    $primary->stop('immediate');

    $standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
    $standby->start;
    $standby->promote;
    $feed->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
    $feed->start;
    $feed->wait_for_log(qr/timeline forked/);
    $feed->wait_ready;
    $standby->safe_psql('postgres', q{INSERT INTO t VALUES (3, 't1'); SELECT clairon.notify('USER', '{comes}', '{"after": {"id": 4}}')});
    $clients{$_}->wait_row(3) for qw(stays leaves);
    $clients{comes}->wait_row(4);
    is($members->(), 'leaves stays', 'the store has the memberships of the new primary');
    is_deeply(rows($clients{comes}), [ 2, 4 ], 'a user who did not join on the new primary does not receive the team\'s rows');
    is_deeply(rows($clients{leaves}), [ 1, 10, 3 ], 'a user who is still a member on the new primary receives the team\'s rows');
    is_deeply([ sort { $a <=> $b } map { $_->{data} =~ /"after":\{"id":\s*(\d+)/ } $store->entries ], [ 1 .. 4, 10, 11 ], 'stored rows are not stored again');
}

done_testing();
