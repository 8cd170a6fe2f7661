# Tests the delivery of notifications, acknowledgements, cursors and memberships with a store on a cluster, with sixteen
# shards and with one shard.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    SELECT clairon.watch('one', 'USER', 'owner');
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});

sub rows { my ($client) = @_; return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $client->notifications }

# Inserts rows for each of nine users; one row in ten is for a group.
sub insert
{
    my ($from, $to) = @_;
    my $text = join '', map { $_ % 10 ? "INSERT INTO one VALUES ($_, 'u" . $_ % 10 . "');" : "INSERT INTO many VALUES ($_, 't1');" } $from .. $to;
    $pg->safe_psql('postgres', "BEGIN; $text COMMIT");
    return;
}

sub expected { my ($user, $from, $to) = @_; return [ map { $_ % 10 ? "one $_" : "many $_" } grep { $_ % 10 == $user || $_ % 10 == 0 } $from .. $to ] }

sub check_cluster
{
    my ($shards) = @_;
    $cluster->{shards} = $shards;
    $pg->safe_psql('postgres', q{TRUNCATE one, many; DELETE FROM clairon.member;
        INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(1, 8) i});
    my %conf = ('store.shards' => $shards == 16 ? undef : $shards, 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h');
    my ($relay, $other) = map { Clairon::Test::relay($pg, $cluster, conf => {%conf}) } 1 .. 2;
    my @clients = map { $relay->client("u$_") } 1 .. 8;
    my $stranger = $other->client('u9');
    insert(1, 200);
    for my $user (1 .. 8)
    {
        $clients[ $user - 1 ]->wait_notifications(40);
        is_deeply([ rows($clients[ $user - 1 ]) ], expected($user, 1, 200), "shards = $shards: u$user receives each notification once, in commit order");
    }
    $stranger->wait_notifications(20);
    is_deeply([ rows($stranger) ], [ map { "one $_" } grep { $_ % 10 == 9 } 1 .. 200 ], "shards = $shards: u9 receives no notification of the group");
    is($cluster->pending, 20, "shards = $shards: the notifications of the group are pending");
    my %used = map { $_->{stream} => 1 } $cluster->entries;
    is(scalar(keys %used) > 1, $shards > 1, "shards = $shards: the notifications are in the expected number of shards");
    is_deeply([ grep { !/^clairon:\{\d+\}:/ } map { @{ $_->execute('KEYS', '*') } } $cluster->alive ], [], "shards = $shards: each key names its shard");

    # One user joins and another user leaves within the transaction of a row.
    $pg->safe_psql('postgres', q{BEGIN; INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u9'); DELETE FROM clairon.member WHERE user_id = 'u8';
        INSERT INTO many VALUES (210, 't1'); COMMIT});
    $stranger->wait_notifications(21);
    is((rows($stranger))[-1], 'many 210', "shards = $shards: a user who joined receives the next notification");

    # A cursor is valid on the other relay.
    $clients[0]->run_until('the notification of the group arrives', sub { grep { $_ eq 'many 210' } rows($clients[0]) });
    $clients[0]->ack(map { $_->{metadata}{id} } $clients[0]->notifications);
    wait_until('the acknowledgements are stored', sub { !grep { $cluster->execute('EXISTS', $_) } $cluster->keys('pending_list:u1') });
    my $pos = $clients[0]->pos;
    $clients[0]->close;
    insert(211, 230);
    $clients[0] = $other->client('u1', pos => $pos);
    $clients[0]->run_until('the missing notifications arrive', sub { grep { $_ eq 'many 230' } rows($clients[0]) });
    ok($clients[0]->wait_for('connected')->{resumed}, "shards = $shards: a client resumes on the other relay");
    is_deeply([ rows($clients[0]) ], expected(1, 211, 230), "shards = $shards: the client receives exactly the missing notifications");

    $_->run_until('the last notification arrives', sub { my $client = $_; grep { $_ eq 'many 230' } rows($client) }) for @clients[ 1 .. 6 ], $stranger;
    is_deeply([ rows($clients[7]) ], [ @{ expected(8, 1, 200) }, 'one 218', 'one 228' ], "shards = $shards: a user who left receives no later notifications of the group")
      if $clients[7]->run_until('the last notification arrives', sub { grep { $_ eq 'one 228' } rows($clients[7]) });
    for my $client (@clients, $stranger)
    {
        $client->ack(map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'many' } $client->notifications);
    }
    wait_until("shards = $shards: all acknowledgements are stored", sub { $cluster->pending == 0 });
    wait_confirmed($pg);
    is($_->metric('clairon_store_errors_total'), 0, "shards = $shards: the cluster returns no errors") for $relay, $other;
    $_->close for @clients, $stranger;
    $_->stop for $relay, $other;
    return;
}

check_cluster(16);
# The next run starts with an empty store and a new slot.
$_->execute('FLUSHALL') for $cluster->alive;
$pg->drop_slot('clairon');
check_cluster(1);

done_testing();
