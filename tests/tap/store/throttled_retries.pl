# Tests that the retries of one table owner take a limited part of the store's time: more of them move to a later time,
# once, and those of other owners do not wait.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use List::Util qw(sum);
use Test::More;

my $store = Clairon::Test::store();
my ($STREAM, $PROGRESS, $USERS) = ('c:stream', 'c:progress:s', 90);    # with its notification, a tenth of a call
my @users = map { "u$_" } 1 .. $USERS;

# The scripts run at this time.
my $now = 1000 * $store->execute('TIME')->[0];
my $CLOCK = <<'LUA';
local real = redis
local redis = setmetatable({call = function(name, ...)
    if name == 'TIME' then return {%d, %d} end
    return real.call(name, ...)
end}, {__index = real})
LUA

sub run_script
{
    my ($name, $keys, @args) = @_;
    my $clock = sprintf $CLOCK, $now / 1000, $now % 1000 * 1000;
    return $store->execute_bytes('EVAL', $clock . script_text($name), scalar @$keys, @$keys, @args);
}
my ($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 1, 1) };
run_script('acquire', [$PROGRESS], 'one', 'ours', 1, '', 16, 'db');
$store->execute('SADD', 'c:presence:relay', @users);

# Adds notifications to these users. Returns their ids.
my ($number, $position) = (0, '');
sub add
{
    my ($owner, $count, $users, %options) = @_;
    my $route = "\0" x 104;
    substr $route, 7,  1, "\3";     # acknowledgements, retries
    substr $route, 48, 8, pack 'Q>', 1000 * ($options{ends} // 0);
    substr $route, 59, 3, pack 'Cn', 2, 100;    # fixed backoff, retry limit
    substr $route, 64, 2, pack 'n', 4;
    substr $route, 88, 4, pack 'N', $owner;
    my @ids;
    for (1 .. $count)
    {
        my $after = $position;
        $position = sprintf '%032x', ++$number;
        push @ids, sprintf '%08x-0000-8000-8000-000000000000', $number;
        my @record = ('A', $position, $ids[-1], $route . 'USER', 'x' x ($options{bytes} // 10), 'USER', scalar @$users, @$users);
        run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, 'one', $after, '', '', 1e9, '', @record)->[1] == 1 or die 'not added';
    }
    return @ids;
}

# Adds notifications whose first ack timeout has ended for all users.
sub add_due
{
    my ($owner, $count, $users, %options) = @_;
    my @ids = add(@_);
    for my $id (@ids) { $store->execute('ZADD', 'c:due', map { ($now - 1000, "$id:$_") } @$users) }
    return @ids;
}

# Processes all due pairs. Returns the numbers of retried, throttled and expired pairs.
sub process
{
    my @sums = (0) x 9;
    my $reply;
    $store->execute('ZADD', 'c:relays', $now, 'relay');
    do
    {
        $reply = run_script('due', [$STREAM], 'c', 30_000, 60_000, 100, 300_000);
        $sums[$_] += $reply->[$_] for 0 .. $#$reply;
    } while ($reply->[4]);
    return join ' ', @sums[ 0, 8, 3 ];
}

# Returns the times in ms from $now at which the pairs of a notification are due.
sub due_after
{
    my %times = map { $_ - $now => 1 } grep { defined } map { $store->execute('ZSCORE', 'c:due', $_) } map { my $id = $_; map { "$id:$_" } @users } @_;
    return join ' ', sort { $a <=> $b } keys %times;
}

add_due(0, 20, \@users);
is(process(), sprintf('%d 0 0', 20 * $USERS), 'retries of owners without limits are not throttled');
my @ids = add_due(7, 20, \@users);
add_due(8, 2, \@users);
is(process(), sprintf('%d %d 0', 13 * $USERS, 9 * $USERS), 'an owner may use the reserve, and another owner has its own');
is(due_after(@ids), join(' ', map { 100 * $_ + 0.75 } 1 .. 9), 'further retries move to free times, all users of a notification to the same');
my $list = $store->execute('ZRANGE', 'c:pending_list:u1', 0, -1);
is(scalar @{ run_script('pending_page', [$STREAM], 'c', 'u1', 0, '+inf', 100, '', 'undelivered')->[1] }, scalar @$list,
    'a user who reconnects receives notifications whose ack timeout has ended');
is(run_script('ack', [$STREAM], 'c', 'relay', 60_000, 1, 'u1', 1, $ids[-1])->[0], 1, 'a throttled retry can be acknowledged');
$now += 1500;
is(process(), sprintf('%d 0 0', 9 * $USERS - 1), 'a retry is throttled once');
$now += 3_600_000;
add_due(7, 20, \@users);
is(process(), sprintf('%d %d 0', 11 * $USERS, 9 * $USERS), 'after an hour the reserve is full, and no more than full');
my ($ending) = add_due(7, 1, \@users, ends => $now + 200);
is(process(), "0 $USERS 0", 'a retry waits behind others of its owner');
is(due_after($ending), '1000.75', 'at the next free time');
$now += 700;
like(process(), qr/ $USERS$/, 'it expires on time');
my ($entry, $logged) = @{ $store->execute_bytes('XREVRANGE', 'c:errors', '+', '-', 'COUNT', 1)->[0] };
my %dead = @$logged;
is(run_script('redrive', [$STREAM], 'c', $entry, $ending, @dead{qw(route data)}, 0, 60_000), $USERS, 'it is redriven');
like($store->execute('HGET', 'c:pending', $ending), qr/ w7$/, 'with its owner');
$now -= 3_600_000;
my ($soon) = add_due(7, 1, \@users);
process();
is(due_after($soon), '1100.75', 'a clock that was set back does not delay retries');
add_due(9, 3, ['u1'], bytes => 600_000);
is(process(), '2 1 0', 'a large notification takes more of the reserve');
my ($single) = add(7, 1, ['u2']);
is_deeply(run_script('ack', [$STREAM], 'c', 'relay', 60_000, 1, 'u2', 1, $single), [ 1, 1 ], 'the last acknowledgement completes a notification');
is($store->execute('HEXISTS', 'c:pending', $single), 0, 'of an owner with limits too');
done_testing();
