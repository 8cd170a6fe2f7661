# A message for everyone expires while the store is away: is each user who was sent it in time either acknowledged or in the error log?
use strict;
use warnings;

use Clairon::Test qw(wait_until script_text);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub notify { my ($ttl) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('ALL', NULL, '{}', ack_required => true, ttl => '$ttl')") }
my ($id, $prompt) = map { notify($_) } '1 second', '1 hour';
wait_until('both are stored', sub { $store->stored == 2 });
$relay->kill9; # from here on the calls are ours, as a store that was stopped finds them in its sockets

my ($stream, $pending, $due) = map { $store->of($id, $_) } qw(stream pending due);
my $prefix = $stream =~ s/:stream$//r;
sub script { my ($name, @arguments) = @_; return $store->execute('EVAL', script_text($name), 1, $stream, $prefix, @arguments) }
sub end { return script('due', 1000, 3_600_000, 100, 1000) }
sub report { my ($how, $user, $message) = @_; return script('report', 1000, 100, 1000, 3_600_000, $how, $user, $message // $id) }
sub ack { my ($user) = @_; return script('ack', 'relay', 3_600_000, 1, $user, 1, $id)->[0] }
sub errors { return map { @{ JSON::decode_json($_->{users}) } } $store->entries('clairon:errors') }
sub now_ms { my ($s, $us) = @{ $store->execute('TIME') }; return 1000 * $s + $us / 1000 }

my $ends = $store->execute('ZSCORE', $due, "$id:");
wait_until('its end is long over', sub { now_ms() > $ends + 2000 });
end();
ok($store->execute('HEXISTS', $pending, $id), 'reports of its showings are waited for');
is_deeply(report('SEO', 'acks'), [], 'a late report counts');
is(ack('acks'), 1, 'and so does the ack');
is(ack('early'), 0, 'an ack may come before its report');
is_deeply([ map { scalar @$_ } report('SEO', 'early'), report('SEO', 'forgets') ], [ 1, 0 ], 'which it waits for');
$store->execute('ZADD', $due, 1, "$id:forgets");
end();
is(scalar(grep { defined $_->{only} } $store->entries), 0, 'nothing is retried meanwhile');
is_deeply([errors()], [], 'nor given up');

# The time is over.
$store->execute('ZADD', $due, '1.5', "$id:");
end();
is_deeply([errors()], ['forgets'], 'who did not acknowledge is in the error log, and nobody else');
ok(!$store->execute('HEXISTS', $pending, $id), 'and the message is done');
my $acked = $store->execute('HGETALL', "$prefix:acked:$id");
my @events = @{ $store->execute('LRANGE', "$prefix:trail:$id", 0, -1) };
for my $user (qw(acks early))
{
    ok((grep { $_ eq $user } @$acked) || (grep { /^acked .* \Q$user\E$/ } @events), "$user has acknowledged it");
}
is($store->execute('EXISTS', "$prefix:ack:$id", "$prefix:tries:$id"), 0, 'nothing else is left');
is($store->execute('ZSCORE', $due, "$id:$_"), undef, "nothing is due of \"$_\"") for '', 'forgets';

# In time: nothing is waited for.
is_deeply(report('SEO', 'slow', $prompt), [], 'a report in time');
$store->execute('ZADD', $due, int(now_ms()), "$prompt:");
end();
is_deeply([errors()], [ 'forgets', 'slow' ], 'an end that is found in time is one at once');

done_testing();
