# Tests that the loss of one node delays only the users of its shards. Other users receive their notifications. When the
# node returns, no notification is lost, duplicated or out of order.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Clairon::Test::Torture;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    CREATE TABLE many (id serial PRIMARY KEY, team text);
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(0, 11) i;
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my ($relay, $second) = map { Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' }) } 1 .. 2;
my @users   = map { "u$_" } 0 .. 11;
# The in-flight window of u1 is refilled only while no acknowledgement waits for the store.
my %clients = map { $_ => $relay->client($_, $_ eq 'u1' ? (win => 1) : ()) } @users;
my (%is_silent, @others, @away);

# Acknowledges all notifications that a client has received; must be called while the client's loop runs.
sub ack_received
{
    my ($client) = @_;
    $client->ack_received if !$is_silent{$client};
    return;
}

# Returns the rows that a user received, in the order received and without duplicates.
sub received
{
    my ($user) = @_;
    my %had;
    return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } grep { !$had{ $_->{metadata}{id} }++ } $clients{$user}->notifications;
}

sub insert
{
    $pg->safe_psql('postgres', q{BEGIN; INSERT INTO one (owner) SELECT 'u' || i FROM generate_series(0, 11) i; INSERT INTO many (team) VALUES ('t1'); COMMIT}) for 1 .. $_[0];
    return;
}

# Waits until these users have received all rows.
sub wait_received
{
    my ($what, @of) = @_;
    my $since = time;
    for my $user (@of)
    {
        my $rows = $pg->safe_psql('postgres', "SELECT (SELECT count(*) FROM one WHERE owner = '$user') + (SELECT count(*) FROM many)");
        $clients{$user}->run_until("$what: $user receives its rows", sub { ack_received($_) for values %clients; received($user) == $rows });
    }
    pass("$what: all rows are received");
    return note sprintf '%s: after %.1f s', $what, time - $since;
}

# $what: all rows are received
sub wait_acked
{
    my ($what, @streams) = @_;
    return $clients{ $others[0] // 'u0' }->run_until("$what: all notifications are acknowledged", sub {
        ack_received($_) for values %clients;
        !grep { $cluster->execute('EXISTS', $_) && $cluster->pending($_) } @streams });
}

sub shard_of { my ($user) = @_; my ($entry) = grep { $_->{data} =~ /"owner":"$user"/ } $cluster->entries; return $entry->{stream} =~ /\{(\d+)\}/ ? $1 : die }

# Returns the status of a request to a relay: an acknowledgement of the user, or a notification for the user.
sub status
{
    my ($user, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => $path, Authorization => 'Bearer ' . token(sub => $user, publish => JSON::true),
        ':body' => JSON::encode_json($body))->{status};
}

sub ack_status     { return status($_[0], '/v1/ack', { ids => ['01a20a09-00d5-8f2d-85c4-8e37214b4767'] }) }
sub publish_status { return status($_[0], '/v1/notifications', { payload => {}, routing => { audience => { type => 'USER', targets => [ $_[0] ] } } }) }

# Checks new clients of the lost shards, on a relay that does not read these shards yet.
sub check_new_clients
{
    my ($what) = @_;
    my $poll   = Clairon::Test::RawSocket->new($second);
    my $stream = Clairon::Test::EventStream->open($second, $away[0]);
    $poll->begin(GET => '/v1/poll', Authorization => 'Bearer ' . token(sub => $away[0]));
    my $bye = $second->client($away[0])->wait_for('bye');
    is($bye->{code}, 4201, "$what: a new client of a lost shard receives a bye");
    cmp_ok($bye->{in}, '>=', 5000, "$what: the bye has a reconnect delay");
    my $response = $poll->read_response;
    is("$response->{status} $response->{headers}{'retry-after'}", '503 5', "$what: a poll of a lost shard is rejected");
    return is(join(' ', map { "$_->{t} " . ($_->{code} // '') } $stream->wait_end), 'bye 4201', "$what: an SSE stream of a lost shard ends");
}

insert(3);
wait_received('initially', @users);
wait_acked('initially', map { "clairon:{$_}:stream" } 0 .. 15);
wait_confirmed($pg);
my %shard = map { $_ => shard_of($_) } @users;
my $lost = (grep { $_ != $cluster->primary_of(0) } map { $cluster->primary_of($shard{$_}) } @users)[0];
my %is_lost = map { $_ => $cluster->primary_of($shard{$_}) == $lost } @users;
@away = grep { $is_lost{$_} } @users;
@others = grep { !$is_lost{$_} } @users;
ok(@away && grep({ $_ eq 'u1' } @others), sprintf('%d users are on the lost node, %d on other nodes', scalar @away, scalar @others));

for my $case ([ 'a killed node', sub { $lost->kill9 }, sub { $lost->start } ],
    [ 'a paused node', sub { $cluster->pause($lost) }, sub { $cluster->resume($lost) } ],
    [ 'a node killed again', sub { $lost->kill9 }, sub { $lost->start } ])
{
    my ($what, $fault, $return) = @$case;
    my $log = length $relay->log_text;
    $is_silent{ $clients{ $away[0] } } = 1;
    insert(1);
    wait_received("before $what", @users);
    $fault->();
    insert(5);
    my $end = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    wait_received($what, @others);
    # Acknowledgements for the lost node wait, and do not delay other acknowledgements.
    delete $is_silent{ $clients{ $away[0] } };
    wait_acked($what, map { "clairon:{$shard{$_}}:stream" } @others);
    pass("$what: acknowledgements for other nodes are stored");
    insert(5);
    wait_received("$what, later", @others);
    is($pg->safe_psql('postgres', "SELECT confirmed_flush_lsn < '$end' FROM pg_replication_slots"), 't', "$what: PostgreSQL retains the WAL");
    like(substr($relay->log_text, $log), qr/shards are unavailable: storing and delivering without them.* shards="[\d,]+"/, "$what: the missing shards are logged");
    is($relay->metric('clairon_store_unavailable_shards') > 0, 1, "$what: the missing shards are counted");
    is(($relay->get('/readyz'))[0], 200, "$what: the relay is ready");
    is(join(' ', map { ack_status($_) } $away[0], $others[0]), '503 204', "$what: over HTTP, only acknowledgements for the node are rejected");
    is(publish_status($away[0]), 503, "$what: notifications for users of the node are rejected");
    check_new_clients($what) if $what eq 'a killed node';
    # A client of another node's shard connects.
    my $new = $relay->client($others[0]);
    $new->wait_for('connected');
    $new->close;
    $return->();
    wait_received("$what returns", @users);
    wait_acked("$what returns", map { "clairon:{$_}:stream" } 0 .. 15);
    wait_confirmed($pg);
    is($relay->metric('clairon_store_unavailable_shards'), 0, "$what returns: no shard is missing");
}

my $torture = Clairon::Test::Torture->new(pg => $pg, seed => 1, tables => [qw(one many)], stored => sub { $cluster->stored });
$torture->check_stored_once($cluster->entries);
$torture->check_commit_order($_, $cluster->entries($_)) for grep { $cluster->execute('EXISTS', $_) } $cluster->keys('stream');
for my $user (@users)
{
    is($clients{$user}->gaps, '', "$user receives no gap");
    my @received = received($user);
    for my $table (qw(one many))
    {
        my @ids = map { /^$table (\d+)/ ? $1 : () } @received;
        is(scalar(grep { $ids[$_] < $ids[ $_ - 1 ] } 1 .. $#ids), 0, "$user receives the rows of $table in order");
    }
}
is($relay->log_text =~ /level=error/ ? 1 : 0, 0, 'no error is logged');

done_testing();
