# Tests that, with min_replicas, a request that waits receives 201 only if a replica of the shard has the notification, so
# that a failover loses no confirmed notification, and that concurrent requests share the queries of the replicas.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

my $REQUESTS = 60;
my $cluster  = Clairon::Test::store_cluster();
my $relay    = Clairon::Test::relay(undef, $cluster, roles => 'gate');
my ($user)   = grep { $cluster->primary_of($cluster->shard_of($_)) != $cluster->primary_of(0) } map { "u$_" } 0 .. 29;
my $stream   = 'clairon:{' . $cluster->shard_of($user) . '}:stream';
my $primary  = $cluster->primary_of($cluster->shard_of($user));
my ($replica) = grep { my $role = $_->execute('ROLE'); $role->[0] eq 'slave' && $role->[2] == $primary->{port} } $cluster->alive;

sub begin
{
    my ($mark, %headers) = @_;
    my $to = delete $headers{to} // $user;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->begin(POST => '/v1/notifications', ':body' => { payload => { mark => $mark }, routing => { audience => { type => 'USER', targets => [$to] } } },
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), %headers);
    return $raw;
}
sub post { return begin(@_)->read_response }
sub on_replica { my ($id) = @_; $replica->execute('READONLY'); return scalar grep { join(' ', @{ $_->[1] }) =~ /\Q$id\E/ } @{ $replica->execute('XRANGE', $stream, '-', '+') } }
sub queries { return $primary->execute('INFO', 'commandstats') =~ /cmdstat_info:calls=(\d+)/ ? $1 : 0 }

my $first = post('first', Prefer => 'wait=8');
is_deeply([ $first->{status}, $first->{headers}{'preference-applied'} ], [ 201, 'wait' ], 'a notification that a replica has received is confirmed');
ok(on_replica($first->{json}{id}), 'the replica has it');
is(post('short', Prefer => 'wait=1')->{headers}{'preference-applied'}, undef, 'a wait that is too short for a report of the replicas is ignored');

# Concurrent requests.
my ($before, $since) = (queries(), time);
my @waiting = map { begin("many $_", Prefer => 'wait=8') } 1 .. $REQUESTS;
is(scalar(grep { $_->read_response->{status} == 201 } @waiting), $REQUESTS, 'concurrent requests are confirmed');
my $count = queries() - $before;
# While requests wait, a query is sent every 100 ms. Without sharing, each request would send at least one.
cmp_ok($count, '<', $REQUESTS / 2 + 10 * (time - $since), 'they share the queries of the replicas');
note "$count queries of the replicas for $REQUESTS requests";

# The replica does not reply for a moment.
$cluster->pause($replica);
my $held = begin('held', Prefer => 'wait=8');
wait_until('the notification is stored', sub { grep { $_->{data} =~ /"mark":"held"/ } $cluster->entries($stream) });
is(post('plain')->{status}, 201, 'a request without a wait is not delayed');
# Another shard of this primary has the same replicas. INFO is the last command of the connection that sends the queries.
my ($neighbour) = grep { my $shard = $cluster->shard_of($_); $shard != $cluster->shard_of($user) && $cluster->primary_of($shard) == $primary } map { "u$_" } 0 .. 99;
my $beside = begin('beside', Prefer => 'wait=8', to => $neighbour);
my %queries;
wait_until('the replicas are queried', sub {
    $queries{$1}++ while $primary->execute('CLIENT', 'LIST') =~ /^id=(\d+) .*\bcmd=info\b/mg;
    return grep { $_ > 20 } values %queries });
is(scalar keys %queries, 1, 'one connection sends the queries of all shards of a primary');
$cluster->resume($replica);
my $confirmed = $held->read_response;
is($confirmed->{status}, 201, 'the response waits until the replica has the notification');
is($beside->read_response->{status}, 201, 'so does the response to a request for another shard of this primary');
ok(on_replica($confirmed->{json}{id}), 'the replica has it then');

# The replica does not reply, loses what was sent to it, and takes over.
$cluster->pause($replica);
$primary->execute('CLIENT', 'KILL', 'TYPE', 'replica');
my $lagging = post('lagging', Prefer => 'wait=3');
is($lagging->{status}, 503, 'a notification that no replica receives in time is not confirmed');
like($lagging->{json}{detail}, qr/on too few replicas/, 'the problem details have the reason');
$primary->kill9;
$cluster->resume($replica);
$cluster->wait_failover($cluster->shard_of($user), $primary);
my %stored = map { $_->{id} => 1 } $cluster->entries($stream);
is_deeply([ map { $stored{$_} } $first->{json}{id}, $confirmed->{json}{id} ], [ 1, 1 ], 'after the failover all confirmed notifications exist');
ok(!grep({ $_->{data} =~ /"mark":"lagging"/ } $cluster->entries($stream)), 'only the notification that was not confirmed is lost');

# The former primary returns as a replica.
$primary->start;
$cluster->wait_discovered;
$cluster->wait_replicated;
$relay->wait_ready;
is(wait_until('notifications are confirmed again', sub { my $response = post('again', Prefer => 'wait=8'); $response->{status} == 201 && $response })->{headers}{'preference-applied'},
    'wait', 'notifications are confirmed after the failover');

# A relay that stops does not wait for the replicas.
$cluster->pause($primary);
my $last = begin('last', Prefer => 'wait=8');
wait_until('the notification is stored', sub { grep { $_->{data} =~ /"mark":"last"/ } $cluster->entries($stream) });
$relay->stop;
pass('a relay that is stopped during a wait exits');
$cluster->resume($primary);

done_testing();
