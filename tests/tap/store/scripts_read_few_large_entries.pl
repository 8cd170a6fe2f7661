# Tests that each call of a script copies a limited number of bytes from the streams, and at most one large stream entry
# beyond that limit.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use Test::More;

my $STREAM = 'c:{1}:stream';
my $store  = Clairon::Test::store();

# Replaces `redis` with a table that sums the bytes of all replies, and keeps the maximum of one reply.
my $METER = <<'LUA';
local real, read, most = redis, 0, 0
local function bytes_of(reply)
    if type(reply) == 'string' then return #reply end
    local bytes = 0
    for _, part in ipairs(type(reply) == 'table' and reply or {}) do bytes = bytes + bytes_of(part) end
    return bytes
end
local function metered(call)
    return function(...)
        local reply = call(...)
        local bytes = bytes_of(reply)
        read, most = read + bytes, math.max(most, bytes)
        real.call('MSET', KEYS[1] .. ':read', read, KEYS[1] .. ':most', most)
        return reply
    end
end
local redis = setmetatable({call = metered(real.call), pcall = metered(real.pcall)}, {__index = real})
LUA

# Returns the reply of the script, the number of kB that it read, and the kB of its largest read.
sub run_script
{
    my ($name, $keys, @args) = @_;
    my @meters = map { "$keys->[0]:$_" } qw(read most);
    $store->execute('MSET', map { $_ => 0 } @meters);
    my $reply = $store->execute('EVAL', $METER . script_text($name), scalar @$keys, @$keys, @args);
    return ($reply, map { int($_ / 1024) } @{ $store->execute('MGET', @meters) });
}

# Adds a notification, followed by retries of earlier notifications.
sub fill
{
    my ($count, $kb) = @_;
    $store->execute('DEL', $STREAM);
    $store->execute('XGROUP', 'CREATE', $STREAM, 'clairon', 0, 'MKSTREAM');
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
$store->execute('HSET', 'c:{1}:progress:s', owner => 'zero', system => 'ours', database => 16, timeline => 1, 'position:zero' => 'f' x 32);
for my $name (sort keys %calls)
{
    my ($pages, @arguments) = @{ $calls{$name} };
    fill(150, 100);
    my (undef, $read, $most) = run_script($name, @arguments);
    note "$name reads $read kB, at most $most kB in one reply";
    cmp_ok($read, '<=', 4096 + 128, "$name reads a limited number of bytes");
    cmp_ok($most, '<=', 128, "$name reads one large entry at a time");
    fill(3, 3000);
    (undef, $read) = run_script($name, @arguments);
    cmp_ok($read, '<=', 4096 + 3008, "$name reads at most one entry beyond the limit");
    next if $name eq 'hello';    # this script only searches for transactions
    fill($pages * 16 - 1, 0);
    my ($reply) = run_script($name, @arguments);
    is(length $reply->[3], 32, "$name finds a notification before many small entries");
}

my $first = fill(1000, 20);
my ($found, $steps, $worst) = ('+', 0, 0);
do
{
    ($found, my ($read)) = run_script('start_position', [$STREAM], 'f' x 32, $found);
    $steps++;
    $worst = $read if $read > $worst;
} while ($found =~ /^\(/);
note "start_position reads $worst kB a step, in $steps steps";
is($found, $first, 'the start position is found before many large entries');
cmp_ok($worst, '<=', 4096 + 32, 'start_position reads a limited number of bytes a step');

# ---- Large notifications, of which scripts read one beyond their limits at most.
sub kb_in_index { my ($member) = @_; return $member =~ /^ *\d+- *\d+ (\d+) / ? int($1 / 1024) : $member }
my $COMMIT = "\0\5\x50\x10\x10\x10\x10\x10"; # in 2017, in us, without bytes that UTF-8 would change
my ($P, $STEP_KB, $COMMIT_MS) = ('d', 1000, int(unpack('Q>', $COMMIT) / 1000));
$store->execute('FLUSHALL');
my ($epoch) = @{ (run_script('hello', ["$P:stream"], $P, 'e' x 16, '', '0-0', 1, 1))[0] };
run_script('acquire', ["$P:progress:s"], 'one', 'ours', 1, '', 16, 'db');
my @ids = map { sprintf '%08x-0000-8000-8000-000000000000', $_ } 1 .. 8;
my $data = 'x' x ($STEP_KB * 1024);
run_script('ingest', [ "$P:stream", "$P:progress:s" ], $P, $epoch, 'one', '', '', '', 1000, '', 'A', sprintf('%032x', 0 + substr $_, 0, 8), $_,
    "\0" x 7 . "\x7f" . "\0" x 32 . $COMMIT . "\0" x 48, $data, 'USER', 2, 'u1', 'u2') for @ids;
my @entries = map { $_->{entry} } $store->entries("$P:stream");
is(@entries, 8, 'the stream has large entries');

is_deeply([ map { kb_in_index($_) } @{ $store->execute('ZRANGE', "$P:large", 0, -1) } ], [ ($STEP_KB) x 8 ],
    'the sizes of large entries are recorded');
my ($reply, $page, $read, $most);
($page, $read, $most) = run_script('range', ["$P:stream"], $P, $entries[1], 256);
is_deeply([ @$page[ 0, 1, 3, 4 ] ], [ 0, [], 1, $entries[2] ], 'a page names the large entry that the caller must read');
cmp_ok($read, '<=', 16, "range reads no large entry: $read kB");
# A deleted entry is still in the index.
$store->execute('XDEL', "$P:stream", $entries[3]);
($page, $read) = run_script('range', ["$P:stream"], $P, $entries[2], 256);
is_deeply([ @$page[ 1, 4 ] ], [ [], $entries[4] ], 'a deleted large entry is skipped');
cmp_ok($read, '<=', 16, "it is found without large entries: $read kB");
is($store->execute('ZCARD', "$P:large"), 7, 'it is removed from the index');
($page, $read) = run_script('range', ["$P:stream"], $P, $entries[-1], 256);
is_deeply([ @$page[0, 2, 3], scalar @{ $page->[1] } ], [ 0, $entries[-1], 0, 0 ], 'the end of the stream is found');
cmp_ok($read, '<=', 16, "the end of the stream is found without large entries: $read kB");
is((run_script('range', ["$P:stream"], $P, '9999999999999-0', 256))[0][0], 2, 'an id beyond the end of the stream is unknown');
($reply, $read) = run_script('count_pending', ["$P:stream"], $P);
cmp_ok($read, '<=', 1, "count_pending reads no large entry: $read kB");
cmp_ok(abs($reply->[1] - $COMMIT_MS), '<=', 50, 'the commit time of the oldest pending notification is known');
$store->execute('XDEL', "$P:stream", $entries[0]);
($page, $read) = run_script('range', ["$P:stream"], $P, '5-0', 256);
is($page->[0], 1, 'the loss of the oldest entry is found');
cmp_ok($read, '<=', 16, "the new oldest entry is found without large entries: $read kB");
is((run_script('range', ["$P:stream"], $P, $entries[1], 256))[0][0], 0, 'nothing after the new oldest entry was trimmed');

my %small = (
    pending_page => [ $P, 'u1', 0, '+inf', 64, '', 'all' ],
    nack => [ $P, 1000, 60000, 0, 60000, 'u1', @ids ],
    report => [ $P, 60000, 1000, 60000, 60000, map { ("Q$_->[0]", 'u3', $_->[1]) } map { [ $entries[$_], $ids[$_] ] } grep { $_ != 3 } 1 .. 7 ],
    redrive => [ $P, '5-0', $ids[1], '', '', 0, 60000 ],
);
run_script('report', ["$P:stream"], $P, 60000, 1000, 60000, 60000, map { ('S', 'u1', $_) } @ids);
for my $name (sort keys %small)
{
    my ($reply, $kb) = run_script($name, ["$P:stream"], @{ $small{$name} });
    cmp_ok($kb, '<=', 16, "$name reads no large entry: $kb kB");
}
is((run_script('nack', ["$P:stream"], $P, 1000, 60000, 0, 60000, 'u1', @ids))[0], 8, 'nack defers notifications without reading them');
my ($pending) = run_script('pending_page', ["$P:stream"], $P, 'u1', 0, '+inf', 64, '', 'all');
is_deeply([ @$pending[ 1, 6 ] ], [ [], $entries[1] ], 'a page of a pending list names the large entry that the caller must read');
my %one = (user => [ $P, 'u1' ], overview => [$P], latest => [ $P, '-' ],
    trace => [ $P, 'ffffffff-0000-8000-8000-000000000000', 0 ]);
for my $name (sort keys %one)
{
    my (undef, $kb) = run_script($name, ["$P:stream"], @{ $one{$name} });
    cmp_ok($kb, '<=', 64, "$name reads no large entry: $kb kB");
}
# A mixture of sizes: medium entries share a page with small ones, in order.
my @sizes = (1, 100, 100, 1, 100, 1, 300, 1, 1, 300, 300);
my @mixed;
for my $kb (@sizes)
{
    my $id = $store->execute('XADD', "$P:stream", '*', id => 'x', route => '', data => 'x' x ($kb * 1024));
    my $bytes = $kb >= 64 ? $kb * 1024 : '';
    # A batch without a script: the feed states the bytes of its last entry if it is large.
    $store->execute('EVAL', script_text($bytes ? 'fence_large' : 'fence'), 2, "$P:stream", "$P:progress:s", $P, $epoch, 'one', 1, '', $bytes ? ($bytes, 'x', '', '') : ());
    push @mixed, $id;
}
my $members = $store->execute('ZRANGE', "$P:large", 0, -1);
is_deeply([ map { kb_in_index($_) } @$members[ -6 .. -1 ] ], [ grep { $_ >= 64 } @sizes ], 'fence records large entries');
my ($at, @found, @pages) = ($entries[-1]);
for (1 .. 20)
{
    my ($page, $kb) = run_script('range', ["$P:stream"], $P, $at, 256);
    cmp_ok($kb, '<=', 256 + 2, "a page has few bytes: $kb kB");
    my @ids = $page->[4] ? $page->[4] : map { $_->[0] } @{ $page->[1] };
    last unless @ids;
    push @found, @ids;
    push @pages, scalar @ids;
    $at = $ids[-1];
}
is_deeply(\@found, \@mixed, 'pages have all entries in order');
is("@pages", '4 2 1 2 1 1', 'an entry that exceeds the rest of a page is on the next page');
is((run_script('range', ["$P:stream"], $P, $mixed[-1], 256))[0][3], 0, 'the last page is complete');
$store->execute('XDEL', "$P:stream", @mixed);
$store->execute('ZADD', "$P:due", map { (1, "$_:u1") } @ids);
($reply, $read) = run_script('due', ["$P:stream"], $P, 60000, 60000, 1000, 60000);
cmp_ok($read, '<=', 1024 + $STEP_KB + 64, "due reads at most one large entry beyond its limit: $read kB");
is($reply->[4], 1, 'the next call continues');
($reply, $read) = run_script('trim', ["$P:stream"], $P, -60000);
cmp_ok($read, '<=', 1024 + $STEP_KB + 64, "trim reads at most one large entry beyond its limit: $read kB");
is($reply->[1], 1, 'the next call continues');
$store->execute('XTRIM', "$P:stream", 'MAXLEN', 0);
$store->execute('XACK', "$P:stream", 'clairon', map { $_->[0] } @{ $store->execute('XPENDING', "$P:stream", 'clairon', '-', '+', 1000) });
run_script('trim', ["$P:stream"], $P, -60000);
is($store->execute('ZCARD', "$P:large"), 0, 'trimmed entries are removed from the index');

done_testing();
