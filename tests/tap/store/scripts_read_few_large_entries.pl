# Tests that scripts that search a stream backwards read a limited number of bytes, page by page. Only the search for
# the start position may read all entries.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use Test::More;

my $STREAM = 'c:{1}:stream';
my $store  = Clairon::Test::store();

# Replaces `redis` with a table that sums the bytes that XREVRANGE returns, and keeps the maximum of one call.
my $METER = <<'LUA';
local real, read, most = redis, 0, 0
local redis = setmetatable({call = function(...)
    local reply, bytes = real.call(...), 0
    if (...) ~= 'XREVRANGE' then return reply end
    for _, entry in ipairs(reply) do
        for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    end
    read, most = read + bytes, math.max(most, bytes)
    real.call('MSET', 'read', read, 'most', most)
    return reply
end}, {__index = real})
LUA

# Returns the reply of the script, the number of kB that it read, and the kB of its largest page.
sub run_script
{
    my ($name, $keys, @args) = @_;
    $store->execute('MSET', read => 0, most => 0);
    my $reply = $store->execute('EVAL', $METER . script_text($name), scalar @$keys, @$keys, @args);
    return ($reply, map { int($_ / 1024) } @{ $store->execute('MGET', 'read', 'most') });
}

# Adds a notification, followed by retries of earlier notifications.
sub fill
{
    my ($count, $kb) = @_;
    $store->execute('DEL', $STREAM);
    my $data = 'x' x ($kb * 1024);
    my $route = "\0" x 7 . "\1" x 57;
    my $id = $store->execute('XADD', $STREAM, '*', id => 'a notification', route => $route, after => '0:1.1', data => $data);
    $store->execute('XADD', $STREAM, '*', id => 'a retry', route => $route, retry_users => '', data => $data) for 1 .. $count;
    return $id;
}

my %calls = (
    hello => [ 0, [$STREAM], 'c:{1}:', 'e' x 16, '', '0-0', 2, '' ],
    follow => [ 24, [$STREAM], 'c:{1}:' ],
    acquire => [ 32, ['c:{1}:progress:s'], 'one', 'ours', 1, '1', 16, 'db' ],
);
for my $name (sort keys %calls)
{
    my ($pages, @arguments) = @{ $calls{$name} };
    fill(150, 100);
    my (undef, $read, $most) = run_script($name, @arguments);
    note "$name reads $read kB, $most kB per page";
    my $transactions = $name eq 'acquire' ? 0 : 4096 + 512; # hello and follow also search for the newest transactions
    cmp_ok($read, '<=', ($pages + 2) * 256 + $transactions, "$name reads a limited number of bytes");
    cmp_ok($most, '<=', 512, "$name reads few large entries per page");
    next if $name eq 'hello';    # this script only searches for transactions
    fill($pages * 16 - 1, 0);
    my ($reply) = run_script($name, @arguments);
    is(length $reply->[3], 64, "$name finds a notification before many small entries");
}

my $first = fill(1000, 20);
my ($found, $read, $most) = run_script('start_position', [$STREAM], 'f' x 32, '+');
note "start_position reads $read kB, $most kB per page";
is($found, $first, 'the start position is found before many large entries');
cmp_ok($most, '<=', 512, 'start_position reads few large entries per page');

done_testing();
