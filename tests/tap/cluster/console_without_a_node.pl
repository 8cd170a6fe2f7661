# Tests that, while a node of a cluster is lost, the console shows the data of the other shards, names the missing shards,
# and reports data that only shard 0 has as unknown.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $cluster = Clairon::Test::store_cluster(replicas => 0, fsync => 'no');    # with everysec, a killed node may lose acknowledged writes
my $relay = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { 'store.min_replicas' => 0, 'gate.console' => 'on' });
my @users = map { "u$_" } 0 .. 29;
my $TOKEN = token(sub => 'root', admin => JSON::true, publish => JSON::true);

sub http { my ($method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method => $path, Authorization => "Bearer $TOKEN", ':body' => $body) }
sub get { my ($path) = @_; return http(GET => $path)->{json} }
sub shards_of { my ($node) = @_; return [ grep { my $primary = $cluster->primary_of($_); $primary && $primary == $node } 0 .. $cluster->shards - 1 ] }

# Each user has a pending notification, and an entry in the error log of the user's shard.
my $expired = JSON::encode_json({ metadata => { topic => 'test' } });
for my $user (@users)
{
    my $shard = $cluster->shard_of($user);
    http(POST => '/v1/notifications', { payload => {}, routing => { audience => { type => 'USER', targets => [$user] }, retry => { ack_required => JSON::true } } });
    $cluster->execute('XADD', "clairon:{$shard}:errors", time . '000-' . (16 * substr($user, 1) + $shard), id => $user, reason => 'expired',
        attempts => 0, users => "[\"$user\"]", data => $expired);
}
my $whole = get('/v1/console');
is_deeply([ @{ $whole->{store} }{qw(pending errors)}, $whole->{missing} ], [ 30, 30, undef ], 'the overview includes all shards');

for my $case ([ 'a node', (grep { $_ != $cluster->primary_of(0) } $cluster->primaries)[0] ], [ 'the node of shard 0', $cluster->primary_of(0) ])
{
    my ($what, $lost) = @$case;
    my $missing = shards_of($lost);
    my %is_missing = map { $_ => 1 } @$missing;
    my @others = grep { !$is_missing{ $cluster->shard_of($_) } } @users;
    my ($away) = grep { $is_missing{ $cluster->shard_of($_) } } @users;
    my $has_shared = $missing->[0] != 0;
    $lost->kill9;
    wait_until("the relay has lost $what", sub { $relay->metric('clairon_store_unavailable_shards') == @$missing });
    for my $when ('immediately', 'later')
    {
        $relay->wait_for_log(qr/shards are unavailable.*shards="?\Q@{[ join ',', @$missing ]}\E\b/) if $when eq 'later';
        my $overview = get('/v1/console');
        is_deeply($overview->{missing}, $missing, "$what, $when: the overview names the missing shards");
        is_deeply([ @{ $overview->{store} }{qw(pending errors)} ], [ scalar @others, scalar @others ], "$what, $when: the overview sums the other shards");
        is(ref $overview->{store}{relays}, $has_shared ? 'ARRAY' : '', "$what, $when: the relays are " . ($has_shared ? 'listed' : 'unknown'));
        my $errors = get('/v1/console/errors');
        my $latest = get('/v1/console/latest');
        is_deeply([ $errors->{missing}, $latest->{missing} ], [ $missing, $missing ], "$what, $when: the error log and the live tail name the missing shards");
        is_deeply([ scalar @{ $errors->{errors} }, scalar @{ $latest->{latest} } ], [ @others < 20 ? scalar @others : 20, scalar @others ],
            "$what, $when: the error log and the live tail list the entries of the other shards");
        my $user = get("/v1/console/user?id=$others[0]");
        is_deeply([ $user->{user}{pending}, $user->{missing}, ref $user->{user}{relays} ], $has_shared ? [ 1, undef, 'ARRAY' ] : [ 1, [0], '' ],
            "$what, $when: the page of a user in another shard is " . ($has_shared ? 'complete' : 'without the relays'));
        my $shard = $cluster->shard_of($away);
        if ($has_shared)
        {
            is_deeply(get("/v1/console/user?id=$away")->{missing}, [$shard], "$what, $when: the page of a user in a missing shard names that shard");
        }
        else
        {
            is(http(GET => "/v1/console/user?id=$away")->{status}, 503, "$what, $when: the page of a user without any available shard is rejected");
        }
    }
    $lost->start;
    wait_until("$what returns", sub { !get('/v1/console')->{missing} });
    is(get('/v1/console')->{store}{errors}, 30, "$what returns: the overview includes all shards");
}

done_testing();
