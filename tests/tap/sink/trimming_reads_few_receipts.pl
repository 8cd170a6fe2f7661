# Tests that trimming counts each receipt that a sink had not read, and that no call of the scripts for receipts reads more
# than about a thousand of them for a sink.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use Test::More;

my $store = Clairon::Test::store();
my $HOUR  = 3_600_000;
my ($KEY, $SINKS) = ('c:{1}:receipts', 'c:{1}:sinks');

# Replaces `redis` with a table that counts the entries in the replies of XRANGE.
my $METER = <<'LUA';
local real, read = redis, 0
local function metered(call)
    return function(...)
        local reply = call(...)
        if ({...})[1] == 'XRANGE' and not reply.err then read = read + #reply end
        real.call('SET', 'read', read)
        return reply
    end
end
local redis = setmetatable({call = metered(real.call), pcall = metered(real.pcall)}, {__index = real})
LUA

# Returns the reply of the script, and the number of receipts that it read.
sub run_script
{
    my ($name, @args) = @_;
    my $reply = $store->execute_bytes('EVAL', $METER . script_text($name), 1, 'c:{1}:stream', 'c:{1}', @args);
    return ($reply, $store->execute('GET', 'read'));
}

# Adds receipts of the year 2001, and returns the entry of the n-th with entry($n).
sub entry { return 1_000_000_000_000 + $_[0] . '-0' }

sub fill
{
    my ($count, %read) = @_;
    $store->execute('DEL', $KEY, $SINKS);
    $store->execute('EVAL', q{for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], string.format('%.0f-0', 1e12 + i), 'id', i, 'data', string.rep('x', 200)) end}, 1, $KEY, $count);
    $store->execute('XGROUP', 'CREATE', $KEY, $_, $read{$_} ? entry($read{$_}) : '0') for sort keys %read;
    return;
}

# Trims until nothing remains to be done. Returns the number of receipts, and the most that were read in a call.
sub trim
{
    my ($age, $bytes) = @_;
    my ($sum, $most) = (0, 0);
    while (1)
    {
        my ($reply, $read) = run_script('trim', $HOUR, $age, $bytes);
        $sum += $reply->[2];
        $most = $read if $read > $most;
        return ($sum, $most) if !$reply->[1];
    }
}
sub dropped { my %fields = @{ $store->execute('HGETALL', $SINKS) }; return { map { /^dropped:(.*)/ ? ($1 => $fields{$_}) : () } keys %fields } }

$store->execute('XGROUP', 'CREATE', 'c:{1}:stream', 'clairon', '0', 'MKSTREAM');
my $COUNT = 25_000;
my $AGE   = time * 1000;    # of receipts that are kept
my %read  = (all => $COUNT, most => $COUNT - 1, much => 2345, few => 123, none => 0);

fill($COUNT, %read);
my ($trimmed, $most) = trim($AGE, 1e9);
is($trimmed, 0, 'receipts within the limits are kept');
cmp_ok($most, '<=', 1, 'and not counted');

($trimmed, $most) = trim($HOUR, 1e9);
is($trimmed, $COUNT, 'receipts beyond the retention are removed');
is_deeply(dropped(), { most => 1, much => $COUNT - 2345, few => $COUNT - 123, none => $COUNT }, 'for each sink, those that it had not read are counted');
cmp_ok($most, '<=', 1002, 'a call reads a thousand entries, however many sinks there are');

fill($COUNT, %read);
($trimmed, $most) = trim($AGE, 0.4 * $store->execute('MEMORY', 'USAGE', $KEY, 'SAMPLES', 0));
my $left = $store->execute('XLEN', $KEY);
cmp_ok(abs($left - 0.4 * $COUNT), '<', 0.05 * $COUNT, 'receipts beyond the bytes are removed');
is($trimmed, $COUNT - $left, 'their number is returned');
is_deeply(dropped(), { much => $trimmed - 2345, few => $trimmed - 123, none => $trimmed }, 'for each sink, those that it had not read are counted');
cmp_ok($most, '<=', 1002, 'a call reads a thousand entries, however many sinks there are');

# Entries of several receipts: ten in each, and a hundred in the last ones.
fill(0);
$store->execute('EVAL', q{for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], string.format('%.0f-0', 1e12 + i), 'n', i > 2000 and 100 or 10, 't', 'x', 'u', 'u') end}, 1, $KEY, 2010);
$store->execute('XGROUP', 'CREATE', $KEY, @$_) for [ none => '0' ], [ most => entry(1500) ], [ all => '$' ];
($trimmed, $most) = trim($HOUR, 1e9);
is($trimmed, 20_000 + 1000, 'the receipts of entries with several are counted');
is_deeply(dropped(), { most => 5000 + 1000, none => 20_000 + 1000 }, 'also for the sinks');

# The backlog of a sink. The store does not know it, because the group was moved.
sub backlog { my ($may_count) = @_; my ($reply, $read) = run_script('receipts_read', 'sql', 'relay', 0, '', 2, $may_count); return ($reply->[5], $read) }
fill(3000, sql => 1);
$store->execute('XGROUP', 'SETID', $KEY, 'sql', entry(500));
my ($backlog, $read) = backlog(1);
is($backlog, 1000, 'a backlog is counted up to 1000 receipts');
cmp_ok($read, '<=', 1002, 'which reads no more');
($backlog, $read) = backlog(0);
is($backlog, -1, 'it is not counted in each call');
cmp_ok($read, '<=', 2, 'which then reads no receipts');
$store->execute('XGROUP', 'SETID', $KEY, 'sql', entry(2800));
is((backlog(1))[0], 200, 'a small backlog is exact');
$store->execute('XGROUP', 'SETID', $KEY, 'sql', entry(3000));
is((backlog(0))[0], 0, 'an empty backlog is known without counting');
$store->execute('XADD', $KEY, '*', 'n', $_, 't', 'x', 'u', 'u') for 7, 4;
is((backlog(1))[0], 11, 'each receipt of an entry counts');
$store->execute('XREADGROUP', 'GROUP', 'sql', 'relay', 'COUNT', 1, 'STREAMS', $KEY, '>');
is((backlog(1))[0], 11, 'also if a relay has read it');
done_testing();
