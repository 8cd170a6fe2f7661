# Tests that moving slots, joining nodes and leaving nodes do not lose, duplicate or reorder notifications, and that
# no request reads a partly moved slot.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Clairon::Test::Client;
use Test::More;

my $SHARDS = 4;
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    CREATE TABLE stop (is_stopped boolean);
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(1, 3) i;
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster(shards => $SHARDS, replicas => 0);
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '10m', 'gate.ping' => '1h' });
my %clients = map { $_ => $relay->client($_) } qw(u1 u2 u3);
my $last    = 0;

# Inserts rows for one user each, and one row for the group.
sub insert
{
    my ($count) = @_;
    my ($from, $to) = ($last + 1, $last += $count);
    $pg->safe_psql('postgres', "BEGIN; INSERT INTO one SELECT i, 'u' || 1 + i % 3 FROM generate_series($from, $to) i;"
      . "INSERT INTO many VALUES ($to, 't1'); COMMIT");
    return;
}

sub received { my ($user) = @_; return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $clients{$user}->notifications }

sub expected
{
    my ($user) = @_;
    return split /\n/, $pg->safe_psql('postgres', qq{
        SELECT name FROM (SELECT 'one ' || id AS name, id, 1 AS part FROM one WHERE owner = '$user'
            UNION ALL SELECT 'many ' || id, id, 2 FROM many) all_rows ORDER BY id, part});
}

my %acked;

# Each client receives its user's notifications in order and acknowledges them. Notifications beyond the in-flight
# window arrive only after acknowledgements.
sub check_received
{
    my ($when) = @_;
    for my $user (sort keys %clients)
    {
        my $client   = $clients{$user};
        my @expected = expected($user);
        do
        {
            $client->run_until("$when: more notifications for $user arrive", sub { $client->notifications > keys %{ $acked{$user} } });
            $client->ack(grep { !$acked{$user}{$_}++ } map { $_->{metadata}{id} } $client->notifications);
        } while (keys %{ $acked{$user} } < @expected);
        is_deeply([ received($user) ], \@expected, "$when: $user receives each notification once, in order");
    }
    return;
}

sub check_stored
{
    my ($when) = @_;
    my @rows = map { $_->{data} =~ /"source":"(\w+)".*"after":\{"id":(\d+)/ ? "$1 $2" : 'none' } $cluster->entries;
    is_deeply([ sort @rows ], [ sort split /\n/, $pg->safe_psql('postgres', q{SELECT 'one ' || id FROM one UNION ALL SELECT 'many ' || id FROM many}) ],
        "$when: each row is stored once");
    wait_until("$when: all acknowledgements are stored", sub { $cluster->pending == 0 });
    return;
}

sub other_than { my ($node) = @_; return (grep { $_ != $node } $cluster->alive)[0] }

insert(30);
check_received('initially');
check_stored('initially');

# Half of a shard's keys have moved: the keys of membership, progress and pending lists are on the other node.
for my $case ([ 0, qr/members|groups/ ], [ 0, qr/progress/ ], [ 0, qr/stream/ ], [ 1, qr/meta/ ], [ 2, qr/pending_list|ack/ ], [ 3, qr/:pending$|due/ ])
{
    my ($shard, $which) = @$case;
    insert(10) if $shard > 1;    # pending notifications
    $clients{$_}->wait_notifications(scalar expected($_)) for sort keys %clients;
    my $from = $cluster->primary_of($shard);
    my $to   = other_than($from);
    $cluster->begin_move($shard, $to);
    cmp_ok($cluster->move_keys($shard, $from, $to, 0, $which), '>', 0, "shard $shard: some of its keys have moved:$which");
    insert(10);
    my $late = Clairon::Test::Client->new($relay->url('/v1/ws'));
    $late->send({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'u2'), pos => $clients{u2}->pos });
    1 while $cluster->move_keys($shard, $from, $to, 10);
    $cluster->end_move($shard, $from, $to);
    check_received("after shard $shard moved");
    check_stored("after shard $shard moved");
    ok($late->wait_for('connected')->{resumed}, 'a client that connects during the move resumes');
    $late->close;
}

# Nodes join and leave under load.
my $script = Clairon::Test::scratch() . '/rows.sql';
PostgreSQL::Test::Utils::append_to_file($script, q{
    DO $$
    DECLARE
        id integer := 1000;
    BEGIN
        WHILE NOT EXISTS (SELECT FROM stop) LOOP
            INSERT INTO one SELECT i, 'u' || 1 + i % 3 FROM generate_series(id, id + 9) i;
            INSERT INTO many VALUES (id + 9, 't1');
            id := id + 10;
            COMMIT;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END $$});
my $writer = Clairon::Test::writer($pg, $script);
my $node   = $cluster->add_node;
for my $shard (0 .. $SHARDS - 1)
{
    my $stored = $cluster->stored;
    $cluster->move($shard, $node);
    wait_until("rows are stored after shard $shard moved", sub { $cluster->stored > $stored });
}
my ($first) = grep { $_ != $node } $cluster->alive;
$cluster->move($_, $first) for 0 .. $SHARDS - 1;
$cluster->remove_node($node);
$pg->safe_psql('postgres', 'INSERT INTO stop VALUES (true)');
$writer->finish;
check_received('after a node joined and left');
check_stored('after a node joined and left');
wait_confirmed($pg);
is($_->gaps, '', 'no client received a gap') for values %clients;
is(scalar(grep { $_->{closed} } values %clients), 0, 'no client lost its connection');
unlike($relay->log_text, qr/level=error/, 'moving slots cause no error');

done_testing();
