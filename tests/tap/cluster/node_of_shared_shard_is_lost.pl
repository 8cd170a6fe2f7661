# Tests that the loss of the node of shard 0 delays only operations on that shard: connected users of other nodes
# receive their notifications, and their acknowledgements are stored. When the node returns, group notifications follow
# for the members at their commit, and no notification is lost, duplicated or out of order.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed token);
use Clairon::Test::RawSocket;
use Clairon::Test::Torture;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    CREATE TABLE many (id serial PRIMARY KEY, team text, members text);
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(0, 11) i;
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my ($relay, $second) = map { Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' }) } 1 .. 2;
my @users   = map { "u$_" } 0 .. 11;
my %clients = map { $_ => $relay->client($_) } @users;
my $lost    = $cluster->primary_of(0);
my @others  = grep { $cluster->primary_of($cluster->shard_of($_)) != $lost } @users;
my @away    = grep { $cluster->primary_of($cluster->shard_of($_)) == $lost } @users;
my ($leaver) = @others;
ok(@others && @away, scalar(@others) . ' users of other nodes, ' . @away . ' of the lost node');

sub ack_received { $_->ack_received for values %clients; return }

# Returns the rows of a table that a user received, in the order received and without duplicates.
sub received { my ($user, $table) = @_; my %had;
    return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq $table && !$had{ $_->{metadata}{id} }++ } $clients{$user}->notifications }

sub insert_one { return $pg->safe_psql('postgres', q{INSERT INTO one (owner) SELECT 'u' || i FROM generate_series(0, 11) i}) }
# The column contains the members at the commit.
sub insert_many { return $pg->safe_psql('postgres', q{INSERT INTO many (team, members) SELECT 't1', string_agg(user_id, ' ') FROM clairon.member WHERE target = 't1'}) }
sub rows { my ($user, $table) = @_; return split /\n/, $pg->safe_psql('postgres', $table eq 'one' ? "SELECT id FROM one WHERE owner = '$user' ORDER BY id" : "SELECT id FROM many WHERE ' ' || members || ' ' LIKE '% $user %' ORDER BY id") }

sub wait_received
{
    my ($what, $table, @of) = @_;
    for my $user (@of)
    {
        my @rows = rows($user, $table);
        $clients{$user}->run_until("$what: $user receives its rows", sub { ack_received(); received($user, $table) >= @rows });
    }
    return pass("$what: the rows of $table are received");
}

sub wait_acked
{
    my ($what, @streams) = @_;
    $clients{ $others[0] }->run_until("$what: all notifications are acknowledged", sub {
        ack_received();
        !grep { $cluster->execute('EXISTS', $_) && $cluster->pending($_) } @streams });
    return pass("$what: all notifications are acknowledged");
}

insert_one();
insert_many();
wait_received('before the loss', $_, @users) for qw(one many);
wait_acked('before the loss', map { "clairon:{$_}:stream" } 0 .. 15);
wait_confirmed($pg);

for my $case ([ 'a killed node', sub { $lost->kill9 }, sub { $lost->start } ],
    [ 'a paused node', sub { $cluster->pause($lost) }, sub { $cluster->resume($lost) } ])
{
    my ($what, $fault, $return) = @$case;
    $fault->();
    insert_one();
    wait_received($what, 'one', @others);
    insert_many();
    # One of the users leaves the team and rejoins it.
    $pg->safe_psql('postgres', "DELETE FROM clairon.member WHERE user_id = '$leaver'");
    insert_many();
    $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', 't1', '$leaver')");
    insert_one();
    wait_received("$what, later", 'one', @others);
    wait_acked($what, map { 'clairon:{' . $cluster->shard_of($_) . '}:stream' } @others);
    # The rows are received when the relay has found that the node is silent; half a second later it continues without the shards.
    wait_until("$what: the relay is not ready for new clients", sub { ($relay->get('/readyz'))[0] == 503 });
    is($relay->metric('clairon_store_unavailable_shards') > 0, 1, "$what: the missing shards are counted");
    is(scalar(received($others[-1], 'many')), scalar(rows($others[-1], 'many')) - 2,
        "$what: group notifications are delayed");
    is($relay->client($others[0], pos => $clients{ $others[0] }->pos)->wait_for('bye')->{code}, 4201, "$what: the relay closes a new client");
    is(Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ack', Authorization => 'Bearer ' . token(sub => $others[0]),
        ':body' => '{"ids":["01a20a09-00d5-8f2d-85c4-8e37214b4767"]}')->{status}, 503, "$what: an acknowledgement whose shard is unknown is rejected");
    $return->();
    for my $table (qw(one many)) { wait_received("$what returns", $table, @users) }
    wait_acked("$what returns", map { "clairon:{$_}:stream" } 0 .. 15);
    wait_confirmed($pg);
    is($relay->metric('clairon_store_unavailable_shards'), 0, "$what returns: no shard is missing");
}

my $torture = Clairon::Test::Torture->new(pg => $pg, seed => 1, tables => [qw(one many)], stored => sub { $cluster->stored });
$torture->check_stored_once($cluster->entries);
$torture->check_commit_order($_, $cluster->entries($_)) for grep { $cluster->execute('EXISTS', $_) } $cluster->keys('stream');
for my $user (@users)
{
    # The user who left and rejoined while notifications waited may receive a gap, but loses nothing.
    is($clients{$user}->gaps, '', "$user receives no gap") if $user ne $leaver;
    # The user who left and rejoined may also receive the row committed in between, because membership is checked at
    # delivery.
    is_deeply([ received($user, $_) ], [ rows($user, $_) ], "$user receives its rows of $_, in order") for 'one', $user eq $leaver ? () : 'many';
}
my %members = map { split /\|/ } split /\n/, $pg->safe_psql('postgres', q{SELECT id || '|' || members FROM many});
my %acked_by = map { my ($id) = $_->{data} =~ /"after":\{"id":(\d+)/; ($id => join ' ', $cluster->audience_of($_)) } grep { $_->{data} =~ /"source":"many"/ } $cluster->entries;
is_deeply(\%acked_by, { map { $_ => join ' ', sort split / /, $members{$_} } keys %members }, 'exactly the members at the commit have acknowledged');
is($relay->log_text =~ /level=error/ ? 1 : 0, 0, 'no error is logged');

done_testing();
