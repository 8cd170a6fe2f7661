# Tests a relay that starts to read a shard while that shard or the shared shard lacks notifications that a killed
# feed did not store: users receive them in commit order.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Client;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE task (id int PRIMARY KEY, owners text[], version int);
    SELECT clairon.watch('task', 'USER', 'owners')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my $feed    = Clairon::Test::relay($pg, $cluster, roles => 'feed', conf => {%conf});
my ($gate, $other) = map { Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}) } 1 .. 2;

# Commits one transaction with these versions; the odd versions are for two users.
my $version = 0;
sub change
{
    my ($count) = @_;
    my $text = 'BEGIN;';
    for (1 .. $count)
    {
        $version++;
        $text .= sprintf q{INSERT INTO task VALUES (1, '{%s}', %d) ON CONFLICT (id) DO UPDATE SET owners = EXCLUDED.owners, version = EXCLUDED.version;},
          $version % 2 ? 'u1,u2' : 'u1', $version;
    }
    $pg->safe_psql('postgres', $text . 'COMMIT');
    wait_until('the transaction is stored', sub { $cluster->stored == $version });
    return;
}

sub versions { return [ map { $_->{payload}{after}{version} } $_[0]->notifications ] }

# The shard does not have its last notifications, as if the feed had been killed before storing them.
sub lose
{
    my ($shard, $progress, $from) = @_;
    my $stream = "clairon:{$shard}:stream";
    $cluster->execute('HSET', "clairon:{$shard}:progress:clairon", @$progress);
    my @lost = map { $_->{entry} } grep { $_->{data} =~ /"version":(\d+)/ && $1 >= $from } $cluster->entries($stream);
    return $cluster->execute('XDEL', $stream, @lost);
}

change(2);
my ($shard) = map { $_->{stream} =~ /\{(\d+)\}/ ? $1 : () } grep { $_->{data} =~ /"owners":\["u1"\]/ } $cluster->entries;
ok($shard, "the user is in shard $shard");
my $begin = $other->client('u1')->pos;
$other->stop;

# Without these kills, the paused process would still read the lost notifications from its sockets.
sub kill_readers
{
    for my $node ($cluster->alive)
    {
        $node->execute('CLIENT', 'KILL', 'ID', $_) for map { /\bid=(\d+).*cmd=xread/ ? $1 : () } split /\n/, $node->execute('CLIENT', 'LIST');
    }
    return;
}

my $attempts = 0;
for my $behind ($shard, 0)
{
    my $what = $behind == 0 ? 'the shared shard is behind' : 'the shard of the user is behind';
    $gate->restart;
    $gate->wait_ready;
    my $live = $gate->client('u2');
    change(2);
    my $progress = $cluster->execute('HGETALL', "clairon:{$behind}:progress:clairon");
    my $from = $version + 1;
    # The gate starts to read the shared shard before or after the loss.
    if ($behind == 0)
    {
        kill STOP => $gate->pid;
        kill_readers();
    }
    change(10);
    $live->run_until("$what: the other user has received all versions of the row", sub { grep { $_ == $version - 1 } @{ versions($live) } }) if $behind > 0;
    $feed->kill9;
    is(lose($behind, $progress, $from), 5, "$what: five notifications are not stored");
    kill CONT => $gate->pid;
    is($gate->metric('clairon_store_followed_shards'), 2, "$what: the gate does not read the shard of the user");
    my $mark = $gate->log_mark;
    my $client = Clairon::Test::Client->new($gate->url('/v1/ws'));
    $client->send({ t => 'connect', r => 1, token => token(sub => 'u1'), pos => $begin });
    wait_until("$what: the gate reads the shard of the user", sub { $gate->metric('clairon_store_followed_shards') == 3 });
    $feed->start;
    $client->run_until("$what: all versions are received", sub { grep({ $_ == $version } @{ versions($client) }) && grep { $_ == $version - 1 } @{ versions($client) } });
    # A gate waits for three seconds only. On a busy machine, the feed may need longer to start.
    redo if $gate->log_text($mark) =~ /waited_s=/ && $attempts++ < 10;
    is_deeply(versions($client), [ 3 .. $version ], "$what: all versions are received, in commit order");
    is($gate->metric('clairon_store_unordered_total'), 0, "$what: no version is out of order");
    $_->close for $live, $client;
}

done_testing();
