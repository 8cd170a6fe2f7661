# Tests the expiration of a notification for ALL with more pairs than one call processes: a delivery report between two
# calls must not restore a processed pair.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark script_text);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

my $one = $relay->client('u1');
my $id = $pg->safe_psql('postgres',
    q{SELECT clairon.notify('ALL', NULL, '{"mark": "open"}', ack_required => true, ttl => '1 hour')});
$one->run_until('the notification arrives', sub { of_mark($one, 'open') });
my $acks = $store->of($id, "ack:$id");
wait_until('the notification is pending for the recipient', sub { $store->execute('HLEN', $acks) == 1 });
$relay->kill9; # from here on, the test calls the scripts

my ($stream, $pending, $due) = map { $store->of($id, $_) } qw(stream pending due);
sub script { my ($name, @arguments) = @_; return $store->execute('EVAL', script_text($name), 1, $stream, $stream =~ s/:stream$//r, @arguments) }
sub end { return script('due', 1000, 3_600_000, 100, 1000) }

my @missing = map { "m$_" } 1 .. 1250;
my @acked = map { "a$_" } 1 .. 1250;
$store->execute('HSET', $acks, (map { ($_, 0) } @missing), map { ($_, 1_700_000_000_000) } @acked);
my ($entry, $left, @rest) = split / /, $store->execute('HGET', $pending, $id);
$store->execute('HSET', $pending, $id, join ' ', $entry, $left + @missing, @rest);
$store->execute('ZADD', $due, 1.5, "$id:"); # expired, and the wait for delivery reports has ended

is(end()->[4], 1, 'one call does not process all pairs');
my @processed = grep { !$store->execute('HEXISTS', $acks, $_) } @missing, @acked;
cmp_ok(scalar(grep { /^$_/ } @processed), '>', 0, "pairs whose user id starts with $_ are processed") for 'm', 'a';
# The reply is a list of index and state.
my $not_pending = script('report', 1000, 100, 1000, 3_600_000, (map { ('S', $_, $id) } @processed));
is(scalar(@$not_pending), 2 * @processed, 'a delivery report does not make a processed pair pending again');
my $fresh = script('report', 1000, 100, 1000, 3_600_000, 'S', 'new', $id);
is(scalar(@$fresh), 0, 'a user without an ack is added to the missing users');
for (my $more = 1; $more; $more = end()->[4]) { }

my %times;
$times{$_}++ for map { @{ JSON::decode_json($_->{users}) } } $store->errors;
is_deeply(\%times, { map { $_ => 1 } 'u1', 'new', @missing }, 'each user without an ack is in the error log exactly once');
is($store->execute('EXISTS', $acks, $pending, $due, $store->of($id, "retries:$id")), 0,
    'the notification has no other state');

done_testing();
