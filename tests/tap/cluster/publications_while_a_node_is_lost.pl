# Tests that, while a node of a cluster is lost, publications to users of other nodes are confirmed and their traces are
# returned, and that a notification which may be on the lost node is not reported as unknown.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $cluster = Clairon::Test::store_cluster(replicas => 0, fsync => 'no');    # with everysec, a killed node may lose acknowledged writes
my $relay = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { 'store.min_replicas' => 0 });
my $lost  = $cluster->primary_of(0);
my @users = map { "u$_" } 0 .. 29;
my ($away) = grep { $cluster->primary_of($cluster->shard_of($_)) == $lost } @users;
my ($user) = grep { $cluster->primary_of($cluster->shard_of($_)) != $lost } @users;
my $UNKNOWN = '01234567-89ab-8def-8123-456789abcdef';

sub begin
{
    my ($method, $path, %options) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->begin($method => $path, Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), %options);
    return $raw;
}
sub begin_publish { my ($to, $mark, %headers) = @_;
    return begin(POST => '/v1/notifications', ':body' => { payload => { mark => $mark }, routing => { audience => { type => 'USER', targets => [$to] } } }, %headers) }
sub trace { my ($id) = @_; return begin(GET => "/v1/notifications/$id")->read_response }
sub stored { my ($mark) = @_; return grep { $_->{data} =~ /"mark":"$mark"/ } $cluster->entries('clairon:{' . $cluster->shard_of($user) . '}:stream') }

my $lost_id = begin_publish($away, 'before')->read_response->{json}{id};
my $kept_id = begin_publish($user, 'before')->read_response->{json}{id};

# The node is lost while the response waits for the sync. The relay then has no store for three seconds.
my $held = begin_publish($user, 'during', Prefer => 'wait=8');
wait_until('the notification is stored', sub { stored('during') });
$lost->kill9;
wait_until('the relay has lost shards', sub { $relay->metric('clairon_store_unavailable_shards') > 0 });
is(trace($kept_id)->{status}, 200, 'a trace from another node is returned immediately');
is_deeply([ @{ $held->read_response }{qw(status)}, scalar stored('during') ], [ 201, 1 ],
    'a publication to a user of another node is confirmed although a node is lost during the wait');

$relay->wait_for_log(qr/shards are unavailable/);
my $after = begin_publish($user, 'after', Prefer => 'wait=8')->read_response;
is_deeply([ $after->{status}, $after->{headers}{'preference-applied'}, scalar stored('after') ], [ 201, 'wait', 1 ],
    'a publication to a user of another node is confirmed while the node is lost');
is(trace($after->{json}{id})->{status}, 200, 'its trace is returned');
for my $case ([ 'on the lost node', $lost_id ], [ 'that does not exist', $UNKNOWN ])
{
    my $response = trace($case->[1]);
    is($response->{status}, 503, "the trace of a notification $case->[0] is not reported as missing");
    like($response->{json}{detail}, qr/part of the store is unavailable/, 'the problem details have the reason');
}
is(begin_publish($away, 'away', Prefer => 'wait=8')->read_response->{status}, 503, 'a publication to a user of the lost node is rejected');

$lost->start;
wait_until('no shard is missing', sub { $relay->metric('clairon_store_unavailable_shards') == 0 });
wait_until('the trace of the notification on the node is returned again', sub { trace($lost_id)->{status} == 200 });
is(trace($UNKNOWN)->{status}, 404, 'an unknown notification is reported as missing while all nodes reply');

done_testing();
