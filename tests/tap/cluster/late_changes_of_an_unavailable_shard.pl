# Tests row changes that arrive late because the node of their shard was unavailable: a change that arrives after a
# newer change of the same row has `attempts` above 0: on the connection that received the newer change, after a
# reconnect, and on another relay, which has read none of the changes before.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE live (id int PRIMARY KEY, version int, owners text[]);
    ALTER TABLE live REPLICA IDENTITY FULL;
    CREATE TABLE acked (LIKE live INCLUDING INDEXES INCLUDING IDENTITY);
    ALTER TABLE acked REPLICA IDENTITY FULL;
    SELECT clairon.watch('live', 'USER', 'owners', live => true);
    SELECT clairon.watch('acked', 'USER', 'owners', ack_required => true)});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' });

# One user's shard is on a node without shard 0, the other user's shard is on another node.
my $kept = $cluster->primary_of(0);
my ($away) = grep { $cluster->primary_of($cluster->shard_of($_)) != $kept } map { "u$_" } 0 .. 99;
my $lost = $cluster->primary_of($cluster->shard_of($away));
my ($other) = grep { $cluster->primary_of($cluster->shard_of($_)) != $lost } map { "u$_" } 0 .. 99;
note "the shard of $away is on the lost node, the shard of $other is not";

my @TABLES = qw(live acked);
my ($last, %newest, @faults, %is_marked) = (0);

# Returns the versions of a row that a client received, without duplicates.
sub versions { my ($client, $table, $id) = @_; my %had;
    return map { $_->{payload}{after}{version} } grep { !$had{ $_->{metadata}{id} }++ && $_->{metadata}{source} eq $table && $_->{payload}{after}{id} == $id } $client->notifications }

# Returns the older versions that arrived after newer versions, as first deliveries.
sub unmarked
{
    my (@clients) = @_;
    my (%newest, @found);
    for my $notification (map { $_->notifications } @clients)
    {
        my ($row, $version) = ("$notification->{metadata}{source} $notification->{payload}{after}{id}", $notification->{payload}{after}{version});
        push @found, "$row.$version" if $version < ($newest{$row} // 0) && !$notification->{routing}{retry}{attempts};
        $newest{$row} = $version if $version > ($newest{$row} // 0);
    }
    return \@found;
}

# While the node is lost, a row of one user is changed and then shared with another user, so that its next change is in
# shard 0.
sub change_row
{
    my $id = ++$last;
    for my $table (@TABLES)
    {
        $pg->safe_psql('postgres', $_) for "INSERT INTO $table VALUES ($id, 1, '{$away}')", "UPDATE $table SET version = 2, owners = '{$away,$other}' WHERE id = $id",
          "UPDATE $table SET version = 3 WHERE id = $id";
    }
    return $id;
}

sub wait_versions
{
    my ($what, $client, $id, @versions) = @_;
    for my $table (@TABLES)
    {
        $client->run_until("$what: $table has versions @versions", sub { my %had = map { $_ => 1 } versions($client, $table, $id); !grep { !$had{$_} } @versions });
    }
    return pass("$what: versions @versions are received");
}

my $client = $relay->client($away);
my $id = change_row();
wait_versions('initially', $client, $id, 1, 2, 3);
is_deeply([ map { $_->{routing}{retry}{attempts} } $client->notifications ], [ (0) x 6 ],
    'no change is marked as a retry before the node is lost');

$lost->kill9;
wait_until('the relay is ready without the shards of the lost node',
    sub { $relay->metric('clairon_store_unavailable_shards') > 0 && ($relay->get('/readyz'))[0] == 200 });
$id = change_row();
wait_versions('while the node is lost', $client, $id, 3);
is_deeply([ map { versions($client, $_, $id) } @TABLES ], [ 3, 3 ], 'while the node is down, only the change in shard 0 is received');
$lost->start;
wait_versions('after the node returns', $client, $id, 1, 2, 3);
is_deeply(unmarked($client), [], 'late changes are marked as retries');

$lost->kill9;
wait_until('the relay is ready again without the shards of the lost node',
    sub { $relay->metric('clairon_store_unavailable_shards') > 0 && ($relay->get('/readyz'))[0] == 200 });
$id = change_row();
wait_versions('before a reconnect', $client, $id, 3);
my $pos = $client->pos;
$client->ack(map { $_->{metadata}{id} } grep { $_->{routing}{retry}{ack_required} } $client->notifications);
$client->close;
$lost->start;
my $again = $relay->client($away, pos => $pos);
ok($again->wait_for('connected')->{resumed}, 'the client resumes');
wait_versions('after the reconnect', $again, $id, 1, 2);
is_deeply(unmarked($client, $again), [], 'late changes are marked as retries after a reconnect');

my $gate = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });
my $elsewhere = $gate->client($away, pos => $pos);
ok($elsewhere->wait_for('connected')->{resumed}, 'the client resumes at another relay');
wait_versions('at another relay', $elsewhere, $id, 1, 2);
is_deeply(unmarked($client, $elsewhere), [], 'late changes are marked as retries by another relay');

$id = change_row();
wait_versions('the end', $again, $id, 1, 2, 3);
is_deeply([ grep { $_->{routing}{retry}{attempts} } grep { $_->{payload}{after}{id} == $id } $again->notifications ], [],
    'changes that follow the late changes are not marked as retries');

done_testing();
