# Tests that, when a notification for ALL expires while the store is down, each user who received it before the
# expiration is acknowledged or in the error log.
use strict;
use warnings;

use Clairon::Test qw(wait_until script_text);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub notify { return $pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', NULL, '{}', ack_required => true, ttl => '1 hour')}) }
my ($id, $prompt) = map { notify() } 1, 2;
wait_until('both notifications are stored', sub { $store->stored == 2 });
$relay->kill9; # from here on, the test calls the scripts, in the order in which a restarted store may receive them

my ($stream, $pending, $due) = map { $store->of($id, $_) } qw(stream pending due);
my $prefix = $stream =~ s/:stream$//r;
sub script { my ($name, @arguments) = @_; return $store->execute('EVAL', script_text($name), 1, $stream, $prefix, @arguments) }
sub end { return script('due', 1000, 3_600_000, 100, 1000) }
sub report { my ($how, $user, $message) = @_; return script('report', 1000, 100, 1000, 3_600_000, $how, $user, $message // $id) }
sub ack { my ($user) = @_; return script('ack', 'relay', 3_600_000, 1, $user, 1, $id)->[0] }
sub errors { return map { @{ JSON::decode_json($_->{users}) } } $store->errors }
sub now_ms { my ($s, $us) = @{ $store->execute('TIME') }; return 1000 * $s + $us / 1000 }

# One notification expired more than two seconds ago.
$store->execute('ZADD', $due, int(now_ms() - 3000), "$id:");
end();
ok($store->execute('HEXISTS', $pending, $id), 'the store waits for delivery reports');
is_deeply(report('S', 'acks'), [], 'a late delivery report is accepted');
is(ack('acks'), 1, 'the ack is accepted');
is(ack('early'), 0, 'an ack before its delivery report does not count yet');
is_deeply([ map { scalar @$_ } report('S', 'early'), report('S', 'forgets') ], [ 2, 0 ],
    'the delivery report of an acknowledged pair does not make the pair pending');
$store->execute('ZADD', $due, 1, "$id:forgets");
end();
is(scalar(grep { defined $_->{retry_users} } $store->entries), 0,
    'no retry is created while the store waits for delivery reports');
is_deeply([errors()], [], 'the error log is empty');

# The wait for delivery reports has ended.
$store->execute('ZADD', $due, '1.5', "$id:");
end();
is_deeply([errors()], ['forgets'], 'exactly the users without an ack are in the error log');
ok(!$store->execute('HEXISTS', $pending, $id), 'the notification is complete');
my $acked = $store->execute('HGETALL', "$prefix:acked:$id");
my @events = @{ $store->execute('LRANGE', "$prefix:trace:$id", 0, -1) };
for my $user (qw(acks early))
{
    ok((grep { $_ eq $user } @$acked) || (grep { /^acked .* \Q$user\E$/ } @events), "$user is acknowledged");
}
is($store->execute('EXISTS', "$prefix:ack:$id", "$prefix:retries:$id"), 0,
    'the notification has no other state');
is($store->execute('ZSCORE', $due, "$id:$_"), undef, "no retry is due for \"$_\"") for '', 'forgets';

# After a delivery report before the expiration, the store does not wait.
is_deeply(report('S', 'slow', $prompt), [], 'a delivery report before the expiration is accepted');
$store->execute('ZADD', $due, int(now_ms()), "$prompt:");
end();
is_deeply([errors()], [ 'forgets', 'slow' ], 'an expiration detected in time is processed immediately');

done_testing();
